"""An API server in memory that can be made to misbehave: for tests in virtual time.

It keeps any resource by path, counts revisions, checks resourceVersions and streams watches. Faults
are switched on by attribute: `down`, `frozen` (accepts, never answers), `delay`, `forget`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from boilerhouse.platform.kube.status import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    NotFound,
    Unavailable,
)
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream

Body = dict[str, Any]

NOW = "2026-05-01T12:00:00Z"


class MemoryApi:
    def __init__(self) -> None:
        self.revision = 100
        self.objects: dict[str, Body] = {}
        self.history: list[tuple[int, str, Body]] = []
        self.requests: list[tuple[float, Request]] = []
        self.down = False
        self.frozen = False
        self.delay = 0.0
        self.births = 0
        self._forgotten = 0
        self._changed = asyncio.Event()

    # -- what a test does behind everybody's back --

    def put(self, path: str, body: Body) -> Body:
        old = self.objects.get(path)
        self.revision += 1
        self.births += old is None
        name = path.rsplit("/", 1)[1]
        uid = old["metadata"]["uid"] if old else f"uid-{self.births}"
        fixed = {"name": name, "namespace": "default", "uid": uid}
        metadata = {**body.get("metadata", {}), **fixed, "resourceVersion": str(self.revision)}
        self.objects[path] = {**body, "metadata": metadata}
        self._happened("MODIFIED" if old else "ADDED", self.objects[path])
        return self.objects[path]

    def remove(self, path: str) -> None:
        body = self.objects.pop(path)
        self.revision += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.revision)}
        self._happened("DELETED", {**body, "metadata": metadata})

    def forget(self) -> None:
        """Lose the history: whoever resumes from before now gets 410."""
        self._forgotten = self.revision
        self._wake()

    def break_streams(self) -> None:
        """Let open watches look at the switches above."""
        self._wake()

    def count(self, method: str, watch: bool = False) -> int:
        return sum(
            r.method == method and (r.param("watch") == "true") is watch for _, r in self.requests
        )

    # -- the transport --

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        await self._arrive(request, timeout)
        try:
            code, body = self._answer(request)
        except ApiError as error:
            code, body = error.status_code, error.to_status()
        return Reply(code, msgspec.json.encode(body))

    @asynccontextmanager
    async def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AsyncIterator[Stream]:
        await self._arrive(request, read_timeout)
        yield Stream(200, self._watch(request, read_timeout))

    def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AbstractAsyncContextManager[Socket]:
        raise AssertionError("no sockets in memory")

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def _arrive(self, request: Request, patience: float | None) -> None:
        self.requests.append((asyncio.get_running_loop().time(), request))
        if self.frozen:
            await asyncio.sleep(patience or 3600)
            raise Unavailable("no answer")
        await asyncio.sleep(self.delay)
        if self.down:
            raise Unavailable("nobody there")

    def _answer(self, request: Request) -> tuple[int, Body]:
        path, old = request.path, self.objects.get(request.path)
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "GET" and path.rsplit("/", 2)[-2] == "default":
            items = [o for p, o in self.objects.items() if p.startswith(path + "/")]
            return 200, {"metadata": {"resourceVersion": str(self.revision)}, "items": items}
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise AlreadyExists("it is there")
            return 201, self.put(path, body)
        if old is None:
            raise NotFound("no such thing")
        if request.method == "PATCH":
            wanted = body.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, old["metadata"]["resourceVersion"]):
                raise Conflict("it has changed")
            return 200, self.put(path, merged(old, body))
        if request.method == "DELETE":
            kept = {key: old["metadata"].get(key) for key in body.get("preconditions", {})}
            if kept != body.get("preconditions", {}):
                raise Conflict("it has changed")
            if old["metadata"].get("finalizers"):
                return 200, self.put(path, merged(old, {"metadata": {"deletionTimestamp": NOW}}))
            self.remove(path)
        return 200, old

    async def _watch(self, request: Request, patience: float | None) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        since = int(request.param("resourceVersion"))
        end = loop.time() + int(request.param("timeoutSeconds"))
        if since < self._forgotten:
            yield _line("ERROR", Gone("too old").to_status())
            return
        while True:
            if self.frozen:
                await asyncio.sleep(patience or 3600)
                raise Unavailable("silence")
            if self.down:
                raise Unavailable("the connection broke")
            for revision, type_, body in self.history:
                if revision > since:
                    since = revision
                    yield _line(type_, body)
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}})
                return

    def _happened(self, type_: str, body: Body) -> None:
        self.history.append((self.revision, type_, body))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    both = {**old, **{key: merged(old.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in both.items() if value is not None}


def _line(type_: str, body: Body) -> bytes:
    return msgspec.json.encode({"type": type_, "object": body}) + b"\n"
