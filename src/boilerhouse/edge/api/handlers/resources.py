"""/workloads, /pools, /claims, /triggers: the objects themselves, one set of handlers for all.

POST {name, spec} ─► create    PUT {spec} ─► create or replace    GET, DELETE

Specs are checked twice: by our own models, which find everything at once and know rules that CEL
cannot say, and by the API server, which has the last word and refuses fields it does not know.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from boilerhouse.core import names
from boilerhouse.core.crd import CustomResource
from boilerhouse.edge.api import views
from boilerhouse.edge.api.auth import (
    ADMIN,
    TRIGGERS_READ,
    TRIGGERS_WRITE,
    WORKLOADS_READ,
    Call,
    Caller,
    caller_of,
)
from boilerhouse.edge.api.errors import bad_request, conflict, invalid, not_found
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.triggers import check_agents_own, check_agents_trigger, owner
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Resource, of
from boilerhouse.platform.kube.status import AlreadyExists, BadRequest, Conflict, NotFound
from boilerhouse.tenancy.claims.model import RESOURCE as CLAIM
from boilerhouse.tenancy.pools.model import RESOURCE as POOL
from boilerhouse.tenancy.triggers.model import RESOURCE as TRIGGER
from boilerhouse.tenancy.workloads.model import RESOURCE as WORKLOAD

Body = dict[str, Any]
Name = Annotated[str, Meta(min_length=1, max_length=253)]

STRICT = (("fieldValidation", "Strict"),)
TRIES = 5  # to replace an object that others change meanwhile


class NewObject(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: Name
    spec: Body
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Replacement(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """With `resourceVersion` it is a compare-and-swap. Labels left out stay as they are."""

    spec: Body
    name: Name | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    resource_version: str = ""


class Deleted(msgspec.Struct):
    name: str
    status: str  # "deleted", or "deleting" while something still holds it


@dataclass(frozen=True, slots=True)
class Kind:
    """One of our kinds as the API serves it."""

    noun: str  # in sentences and codes: Workload
    custom: CustomResource
    read: str  # scopes
    write: str

    @property
    def resource(self) -> Resource[Dynamic]:
        return of(self.custom, Dynamic)

    def visible(self, caller: Caller, body: Body) -> bool:
        """Whether an object exists for this caller: of its own workload, its own tenant."""
        if caller.admin:
            return True
        spec = body.get("spec", {})
        match self.noun:
            case "Workload":
                return bool(body["metadata"]["name"] == caller.workload)
            case "Trigger":
                return caller.sees(owner(spec), spec.get("workloadRef"))
            case _:
                return False


KINDS = {
    "workloads": Kind("Workload", WORKLOAD, WORKLOADS_READ, ADMIN),
    "pools": Kind("Pool", POOL, ADMIN, ADMIN),
    "claims": Kind("Claim", CLAIM, ADMIN, ADMIN),
    "triggers": Kind("Trigger", TRIGGER, TRIGGERS_READ, TRIGGERS_WRITE),
}


@dataclass(frozen=True, slots=True)
class Shelf:
    """The objects of one kind, for one caller."""

    kind: Kind
    services: Services
    caller: Caller

    def _path(self, name: str | None = None) -> str:
        return self.kind.resource.path(self.services.client.namespace, name)

    async def all(self) -> list[views.Resource]:
        found = await self.services.client.raw("GET", self._path())
        return [
            views.resource(item) for item in found["items"] if self.kind.visible(self.caller, item)
        ]

    async def get(self, name: str) -> Body:
        try:
            found: Body = await self.services.client.raw("GET", self._path(name))
        except (NotFound, BadRequest):  # a text that cannot name an object names none
            raise not_found(self.kind.noun, name) from None
        if not self.kind.visible(self.caller, found):
            raise not_found(self.kind.noun, name)
        return found

    @asynccontextmanager
    async def _in_turn(self) -> AsyncGenerator[None]:
        """Let agents write one after the other, so that their number of triggers is kept to."""
        if self.caller.admin:
            yield
            return
        async with self.services.agents_turn:
            yield

    async def create(self, data: NewObject) -> Body:
        async with self._in_turn():
            return await self._create(data)

    async def _create(self, data: NewObject) -> Body:
        await self._check(data.name, data.spec, None)
        meta = {"name": data.name, "labels": data.labels, "annotations": data.annotations}
        try:
            return await self._send("POST", self._path(), self._object(meta, data.spec))
        except AlreadyExists:
            raise conflict(
                "AlreadyExists",
                f"there is a {self.kind.noun.lower()} named {data.name!r} already; PUT replaces it",
            ) from None

    async def put(self, name: str, data: Replacement) -> tuple[Body, bool]:
        """Create or replace; also say whether it is new."""
        async with self._in_turn():
            return await self._put(name, data)

    async def _put(self, name: str, data: Replacement) -> tuple[Body, bool]:
        if data.name not in (None, name):
            raise bad_request(f"name: {data.name!r} is not the {name!r} of the path")
        for _ in range(TRIES):
            old = await self._held(name)
            if old is None and data.resource_version:
                raise not_found(self.kind.noun, name)
            if old is not None and not self.kind.visible(self.caller, old):
                raise conflict("AlreadyExists", f"the name {name!r} is taken")
            await self._check(name, data.spec, old)
            try:
                if old is not None:
                    return await self._replace(old, data), False
                meta = {"name": name, "labels": data.labels, "annotations": data.annotations}
                return await self._send("POST", self._path(), self._object(meta, data.spec)), True
            except (AlreadyExists, Conflict):
                if data.resource_version:
                    raise
        raise conflict("Conflict", f"{self.kind.noun} {name!r} keeps changing; try again")

    async def _held(self, name: str) -> Body | None:
        try:
            found: Body = await self.services.client.raw("GET", self._path(name))
        except NotFound:
            return None
        return found

    async def _replace(self, old: Body, data: Replacement) -> Body:
        meta = dict(old["metadata"])
        if data.labels is not None:
            meta["labels"] = data.labels
        if data.annotations is not None:
            # Ours say what is going on with the object: they are no part of what people apply.
            kept = {
                key: value
                for key, value in meta.get("annotations", {}).items()
                if key.startswith(f"{names.GROUP}/")
            }
            meta["annotations"] = data.annotations | kept
        if data.resource_version:
            meta["resourceVersion"] = data.resource_version
        body = {**old, "metadata": meta, "spec": data.spec}
        return await self._send("PUT", self._path(meta["name"]), body)

    async def delete(self, name: str) -> Deleted:
        old = await self.get(name)
        if not self.caller.admin:
            check_agents_own(self.caller, old)
        uid = old["metadata"]["uid"]
        try:
            left = await self.services.client.delete(self.kind.resource, name, uid=uid)
        except (NotFound, Conflict):
            raise not_found(self.kind.noun, name) from None
        return Deleted(name, "deleted" if left is None else "deleting")

    async def _check(self, name: str, spec: Body, old: Body | None) -> None:
        problems = self.kind.custom.problems(spec)
        if problems:
            raise invalid(f"{self.kind.noun.lower()} {name!r}", problems)
        if not self.caller.admin:
            await check_agents_trigger(self.services, self.caller, spec, old)

    async def _send(self, method: str, path: str, body: Body) -> Body:
        sent: Body = await self.services.client.raw(method, path, body, query=STRICT)
        return sent

    def _object(self, meta: Body, spec: Body) -> Body:
        resource = self.kind.resource
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {key: value for key, value in meta.items() if value},
            "spec": spec,
        }


def handlers(plural: str) -> list[HTTPRouteHandler]:
    """Return the handlers of one kind."""
    root, one = f"{V1}/{plural}", f"{V1}/{plural}/{{name:str}}"
    kind = KINDS[plural]
    reading, writing = {"scope": kind.read}, {"scope": kind.write}

    def shelf(services: Services, request: Call) -> Shelf:
        return Shelf(kind, services, caller_of(request))

    @get(root, opt=reading, name=f"list-{plural}", operation_id=f"list_{plural}")
    async def list_all(services: TheServices, request: Call) -> list[views.Resource]:
        """Return all of them, by name."""
        return await shelf(services, request).all()

    @get(one, opt=reading, name=f"get-{plural}", operation_id=f"get_{plural}")
    async def get_one(name: FromPath[str], services: TheServices, request: Call) -> views.Resource:
        """Return one."""
        return views.resource(await shelf(services, request).get(name))

    @post(root, opt=writing, name=f"create-{plural}", operation_id=f"create_{plural}")
    async def create(
        data: JSONBody[NewObject], services: TheServices, request: Call
    ) -> views.Resource:
        """Create one; 409 if the name is taken, 422 with everything that is wrong with it."""
        return views.resource(await shelf(services, request).create(data))

    @put(one, opt=writing, name=f"put-{plural}", operation_id=f"put_{plural}")
    async def create_or_replace(
        name: FromPath[str],
        data: JSONBody[Replacement],
        services: TheServices,
        request: Call,
    ) -> Response[views.Resource]:
        """Create it (201) or replace its spec (200)."""
        body, new = await shelf(services, request).put(name, data)
        return Response(views.resource(body), status_code=201 if new else 200)

    @delete(
        one,
        opt=writing,
        name=f"delete-{plural}",
        operation_id=f"delete_{plural}",
        status_code=200,
    )
    async def remove(
        name: FromPath[str], services: TheServices, request: Call
    ) -> Response[Deleted]:
        """Delete it: 200 when it is gone, 202 while something still holds it."""
        gone = await shelf(services, request).delete(name)
        return Response(gone, status_code=200 if gone.status == "deleted" else 202)

    return [list_all, get_one, create, create_or_replace, remove]
