"""Speaks to an API server at the level of the wire, so that a test sees whole answers.

test ──► Api.get/post/… ──► kube.wire.Transport ──► Answer (code, headers, decoded body)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from boilerhouse.platform.kube import wire
from boilerhouse.platform.kube.wire import Reply, Request, Transport

Body = dict[str, Any]

_GROUPS = {
    "statefulsets": "apis/apps/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "endpointslices": "apis/discovery.k8s.io/v1",
    "networkpolicies": "apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "customresourcedefinitions": "apis/apiextensions.k8s.io/v1",
    "boilerhouseworkloads": "apis/boilerhouse.dev/v1alpha1",
    "boilerhousepools": "apis/boilerhouse.dev/v1alpha1",
    "boilerhouseclaims": "apis/boilerhouse.dev/v1alpha1",
    "boilerhousetriggers": "apis/boilerhouse.dev/v1alpha1",
    "widgets": "apis/contract.example.com/v1",
    "gadgets": "apis/contract.example.com/v1",
}
_CLUSTER_SCOPED = {"namespaces", "nodes", "customresourcedefinitions", "gadgets"}


@dataclass(frozen=True)
class Answer:
    """One reply, decoded."""

    code: int
    body: Any
    headers: Mapping[str, str]

    def ok(self) -> Body:
        """The body of a success; anything else fails the test with the server's words."""
        assert 200 <= self.code < 300, f"{self.code}: {self.body}"
        body: Body = self.body
        return body

    def status(self, code: int, reason: str) -> Body:
        """The body of a failure with exactly this code and reason."""
        assert isinstance(self.body, dict), f"{self.code}: {self.body!r}"
        assert (self.code, self.body.get("reason")) == (code, reason), self.body
        assert self.body["kind"] == "Status"
        assert self.body["apiVersion"] == "v1"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == code
        assert self.body["metadata"] == {}
        failure: Body = self.body
        return failure

    def causes(self, code: int = 422, reason: str = "Invalid") -> set[tuple[str, str]]:
        """The (field, reason) pairs of a refused object."""
        causes = self.status(code, reason)["details"].get("causes", [])
        pairs = {(cause.get("field", ""), cause["reason"]) for cause in causes}
        # Not a violation: a note that rules were not evaluated because the schema is broken.
        return pairs - {("<nil>", "FieldValueInvalid")}


class Events:
    """An open watch."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._lines = _lines(chunks)

    async def next(self, timeout: float = 10) -> tuple[str, Body]:
        """Return the next (type, object); `StopAsyncIteration` once the server has ended it."""
        async with asyncio.timeout(timeout):
            event = json.loads(await anext(self._lines))
        return event["type"], event["object"]

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return the (type, name) of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(kind, body["metadata"].get("name", "")) for kind, body in events]

    async def ended(self, timeout: float = 10) -> bool:
        """Tell whether the server ends the watch without another word."""
        try:
            await self.next(timeout)
        except StopAsyncIteration:
            return True
        return False


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        *whole, buffer = buffer.split(b"\n")
        for line in whole:
            if line:
                yield line
    if buffer:
        yield buffer


class Api:
    """Calls in one namespace. A resource is named by its plural, a path starts with a slash."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        self.namespace = namespace

    def path(self, resource: str, name: str = "", sub: str = "", *, namespace: str = "") -> str:
        parts = [_GROUPS.get(resource, "api/v1")]
        if resource not in _CLUSTER_SCOPED:
            parts += ["namespaces", namespace or self.namespace]
        parts += [resource, *filter(None, (name, sub))]
        return "/" + "/".join(parts)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        content: str = wire.JSON,
        accept: str = wire.JSON,
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = content
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await self.transport.request(
            Request(method, path, _pairs(query), headers, b"" if body is None else encoded),
            timeout=30,
        )
        return _answer(reply)

    async def get(self, resource: str, name: str = "", sub: str = "", **query: object) -> Answer:
        return await self.call("GET", self.path(resource, name, sub), query=query)

    async def create(self, resource: str, body: object, **query: object) -> Answer:
        return await self.call("POST", self.path(resource), body, query=query)

    async def update(
        self, resource: str, body: Body, sub: str = "", *, name: str = "", **query: object
    ) -> Answer:
        path = self.path(resource, name or body["metadata"]["name"], sub)
        return await self.call("PUT", path, body, query=query)

    async def patch(
        self,
        resource: str,
        name: str,
        body: object,
        sub: str = "",
        *,
        content: str = wire.MERGE_PATCH,
        **query: object,
    ) -> Answer:
        path = self.path(resource, name, sub)
        return await self.call("PATCH", path, body, query=query, content=content)

    async def delete(
        self, resource: str, name: str = "", body: object = None, **query: object
    ) -> Answer:
        return await self.call("DELETE", self.path(resource, name), body, query=query)

    async def names(self, resource: str, **query: object) -> list[str]:
        """Return the names that a list gives, in its order."""
        items = (await self.call("GET", self.path(resource), query=query)).ok()["items"]
        return [item["metadata"]["name"] for item in items]

    @contextlib.asynccontextmanager
    async def watch(self, resource: str, **query: object) -> AsyncIterator[Events]:
        """Open a watch; the server must accept it with 200."""
        asked = {"watch": "true", "timeoutSeconds": 60, **query}
        request = Request("GET", self.path(resource), _pairs(asked), {"accept": wire.JSON})
        async with self.transport.stream(request, read_timeout=90) as stream:
            assert stream.status == 200, b"".join([chunk async for chunk in stream.chunks])
            yield Events(stream.chunks)

    async def until(self, what: Callable[[], Awaitable[bool]], timeout: float = 15) -> None:
        """Wait for what a controller does in its own time."""
        async with asyncio.timeout(timeout):
            while not await what():  # noqa: ASYNC110 - it is the server's state, not ours
                await asyncio.sleep(0.02)

    async def gone(self, resource: str, name: str, timeout: float = 15) -> None:
        """Wait until an object is not found."""

        async def absent() -> bool:
            return (await self.get(resource, name)).code == 404

        await self.until(absent, timeout)


def _pairs(query: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(value)) for key, value in (query or {}).items() if value is not None)


def _answer(reply: Reply) -> Answer:
    kind = reply.headers.get("content-type", "")
    body: Any = reply.body
    if reply.body and "json" in kind:
        body = json.loads(reply.body)
    return Answer(reply.status, body, reply.headers)
