"""The production client's verbs on the simulated server, one gate before and one after each call.

actor ─► SimClient ─► gate (asked) ─► SimServer ─► gate (answered) ─► actor

Nothing passes a gate until the scheduler says so: requests overtake each other, answers come late,
get lost, or never arrive because the actor died between two writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from boilerhouse.platform.kube.listing import Listing
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.platform.kube.selectors import matches
from boilerhouse.platform.kube.status import NotFound, Unavailable
from tests.sim.server import Body, SimServer

Verdict = Literal["go", "fail", "lose"]


@dataclass(eq=False)
class Call:
    """A call at a gate."""

    actor: str
    what: str
    writes: bool
    answered: bool
    turn: asyncio.Future[Verdict]


class Gates:
    """Every call of every actor that waits for the scheduler."""

    def __init__(self) -> None:
        self.waiting: list[Call] = []
        self.open = False  # let everything through: for the end of a run

    async def pass_through(self, actor: str, what: str, *, writes: bool, answered: bool) -> Verdict:
        if self.open:
            await asyncio.sleep(0)
            return "go"
        turn: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        call = Call(actor, what, writes, answered, turn)
        self.waiting.append(call)
        try:
            return await turn
        finally:
            if call in self.waiting:
                self.waiting.remove(call)


class SimClient:
    """Speaks as one actor. To this server nothing is `deferred` of its disk."""

    namespace = "sim"

    def __init__(self, server: SimServer, gates: Gates, actor: str) -> None:
        self._server = server
        self._gates = gates
        self._actor = actor

    def resolve_namespace(self, namespace: str | None) -> str:
        return self.namespace if namespace is None else namespace

    async def get(self, resource: Resource[Any], name: str, *, namespace: str = "sim") -> Any:
        found = await self._call(
            f"get {resource.plural}/{name}", lambda: self._server.get(resource.plural, name)
        )
        return decoded(resource, found)

    async def find(
        self, resource: Resource[Any], name: str, *, namespace: str = "sim", deferred: bool = False
    ) -> Any:
        try:
            return await self.get(resource, name, namespace=namespace)
        except NotFound:
            return None

    async def list(
        self, resource: Resource[Any], *, labels: Mapping[str, str] | None = None, **_: Any
    ) -> Listing[Any]:
        def all_of() -> list[Body]:
            have = self._server.all(resource.plural)
            return [b for b in have if matches(labels or {}, b["metadata"].get("labels", {}))]

        found = await self._call(f"list {resource.plural}", all_of)
        items = [decoded(resource, body) for body in found]
        return Listing(items, str(self._server.revision), {})

    async def create(self, resource: Resource[Any], body: Body, *, deferred: bool = False) -> Any:
        if resource.plural in ("events", "secrets"):
            return decoded(resource, {"metadata": {"name": "x"}})  # told apart, and not simulated
        made = await self._call(
            f"create {resource.plural}/{body['metadata']['name']}",
            lambda: self._server.create(self._actor, resource.plural, body),
            writes=True,
        )
        return decoded(resource, made)

    async def merge_patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
        deferred: bool = False,
    ) -> Any:
        if resource.plural == "events":
            return decoded(resource, {"metadata": {"name": "x"}})
        plain: Body = msgspec.json.decode(msgspec.json.encode(patch))
        made = await self._call(
            f"patch {resource.plural}/{name} {subresource}",
            lambda: self._server.merge(self._actor, resource.plural, name, plain, subresource),
            writes=True,
        )
        return decoded(resource, made)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
    ) -> Any:
        left = await self._call(
            f"delete {resource.plural}/{name}",
            lambda: self._server.delete(
                self._actor, resource.plural, name, uid, resource_version, grace
            ),
            writes=True,
        )
        return None if left is None else decoded(resource, left)

    async def _call(self, what: str, act: Callable[[], Any], *, writes: bool = False) -> Any:
        verdict = await self._gates.pass_through(self._actor, what, writes=writes, answered=False)
        if verdict == "fail":
            raise Unavailable("simulated: nobody answers")
        done = act()
        if writes and await self._gates.pass_through(
            self._actor, what, writes=True, answered=True
        ) in ("fail", "lose"):
            raise Unavailable("simulated: the answer is lost")
        return done


def decoded(resource: Resource[Any], body: Body) -> Any:
    return resource.decode(msgspec.json.encode(body))
