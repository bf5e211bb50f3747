"""/secrets and /configmaps: what workloads refer to. Values go in and never come out again."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from boilerhouse.core import names
from boilerhouse.edge.api.auth import ADMIN
from boilerhouse.edge.api.errors import bad_request, conflict, invalid, not_found
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.platform.kube.kinds import ConfigMap, Secret
from boilerhouse.platform.kube.resources import CONFIG_MAPS, SECRETS, Resource
from boilerhouse.platform.kube.status import AlreadyExists, BadRequest, NotFound
from boilerhouse.tenancy.postmortems.model import COMPONENT

KINDS: dict[str, Resource[Any]] = {"secrets": SECRETS, "configmaps": CONFIG_MAPS}


class Setting(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """As in Kubernetes: a Secret's `data` is base64, `stringData` is plain; a ConfigMap's
    `data` is plain, `binaryData` is base64."""

    data: dict[str, str] = msgspec.field(default_factory=dict)
    string_data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)
    type: str = ""
    # Not `bool`: the framework reads 0, 1 and "no" as one, and this cannot be taken back.
    immutable: Annotated[Any, Meta(extra_json_schema={"type": "boolean"})] = False
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class SettingView(msgspec.Struct, rename="camel"):
    """What is there, by name and key; the version changes with the values, and tells none."""

    name: str
    keys: list[str]
    resource_version: str


class Deleted(msgspec.Struct):
    name: str
    status: str = "deleted"


def handlers(plural: str) -> list[HTTPRouteHandler]:
    """Return the handlers of one kind."""
    root, one = f"{V1}/{plural}", f"{V1}/{plural}/{{name:str}}"
    resource = KINDS[plural]
    opt = {"scope": ADMIN}

    @get(root, opt=opt, name=f"list-{plural}", operation_id=f"list_{plural}")
    async def list_all(services: TheServices) -> list[SettingView]:
        """Return names and keys, not the values."""
        found = await services.client.list(resource)
        return [_view(item) for item in found.items if not _is_ours(item)]

    @get(one, opt=opt, name=f"get-{plural}", operation_id=f"get_{plural}")
    async def get_one(name: FromPath[str], services: TheServices) -> SettingView:
        """Return the keys of one, not the values."""
        return _view(await _get(services, resource, name))

    @put(one, opt=opt, name=f"put-{plural}", operation_id=f"put_{plural}")
    async def create_or_replace(
        name: FromPath[str], data: JSONBody[Setting], services: TheServices
    ) -> Response[SettingView]:
        """Create it (201) or replace it whole (200)."""
        body = _body(resource, name, data)
        try:
            made = await services.client.create(resource, body)
            return Response(_view(made), status_code=201)
        except AlreadyExists:
            await _get(services, resource, name)
            return Response(_view(await services.client.replace(resource, body)), status_code=200)

    @delete(
        one,
        opt=opt,
        name=f"delete-{plural}",
        operation_id=f"delete_{plural}",
        status_code=200,
    )
    async def remove(name: FromPath[str], services: TheServices) -> Deleted:
        """Delete it."""
        await _get(services, resource, name)
        await services.client.delete(resource, name)
        return Deleted(name)

    return [list_all, get_one, create_or_replace, remove]


async def _get(services: Services, resource: Resource[Any], name: str) -> Secret | ConfigMap:
    try:
        found: Secret | ConfigMap = await services.client.get(resource, name)
    except (NotFound, BadRequest):
        raise not_found(resource.kind, name) from None
    if _is_ours(found):
        raise conflict("Reserved", f"{resource.kind} {name!r} belongs to Boilerhouse itself")
    return found


def _is_ours(item: Secret | ConfigMap) -> bool:
    """Whether it is an agent's token, the helper's, or a post-mortem: nobody's setting."""
    return not {names.AGENT, COMPONENT}.isdisjoint(item.metadata.labels)


def _view(item: Secret | ConfigMap) -> SettingView:
    binary = item.binary_data if isinstance(item, ConfigMap) else {}
    meta = item.metadata
    return SettingView(meta.name, sorted([*item.data, *binary]), meta.resource_version)


def _body(resource: Resource[Any], name: str, data: Setting) -> dict[str, Any]:
    secret = resource is SECRETS
    if not isinstance(data.immutable, bool):
        raise bad_request("immutable: must be true or false")
    problems = []
    if secret and data.binary_data:
        problems.append("binaryData: a Secret has data and stringData")
    if not secret and (data.string_data or data.type):
        problems.append("stringData and type: only a Secret has these")
    for key, value in (data.data if secret else data.binary_data).items():
        try:
            base64.b64decode(value, validate=True)
        except ValueError:  # binascii.Error, or a character that is not ASCII
            field = "data" if secret else "binaryData"
            problems.append(f"{field}.{key}: not base64 (a Secret's stringData takes plain text)")
    if problems:
        raise invalid(f"{resource.kind} {name!r}", problems)
    fields = {
        "data": data.data,
        "stringData": data.string_data,
        "binaryData": data.binary_data,
        "type": data.type,
        "immutable": data.immutable,
    }
    meta = {"name": name, "labels": data.labels, "annotations": data.annotations}
    return {
        "metadata": {key: value for key, value in meta.items() if value},
        **{key: value for key, value in fields.items() if value},
    }
