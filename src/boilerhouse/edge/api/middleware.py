"""The outermost layer: what every request passes before the framework sees it, and after.

uvicorn ─► OuterMiddleware ─► Litestar

* Paths are judged as they were sent. The server decodes them, after which `a%2Fb` looks like two
  segments, `//` like one slash, and bytes that are no UTF-8 like a question mark: three ways for
  one tenant's id to be read as another's. All three are refused here.
* A WebSocket that is refused gets an HTTP answer with the reason, where the server can send one.
* What is cut off before it is answered, because the server stops, is told so.
* Every answer carries the headers that keep browsers from guessing and framing; every request is
  counted by its route, never by its path.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes

from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.types import Receive, Scope, Send
from prometheus_client import Histogram

from boilerhouse.core.clock import Clock
from boilerhouse.core.names import TENANT_RULE
from boilerhouse.edge.api.errors import PROBLEM_JSON, Problem, problem_of
from boilerhouse.edge.api.hangup import ShuttingDown
from boilerhouse.edge.api.sockets import refuse

SECONDS = Histogram(
    "boilerhouse_http_seconds",
    "Time until an answer was complete, by route and status.",
    ["method", "route", "status"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
_seconds = cache(SECONDS.labels)  # looking a label up costs more than counting

# A body is waited for as long as so many bytes come in so many seconds; the last may be fewer.
BODY_PIECE = 64 << 10
BODY_SECONDS = 60.0

HEADERS = [(b"x-content-type-options", b"nosniff"), (b"x-frame-options", b"DENY")]
RAISED = "boilerhouse.raised"  # in a scope: what a handler raised

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CODED_SLASH = re.compile(rb"%2f|%5c", re.IGNORECASE)


async def remember(error: Exception, scope: Scope) -> None:
    """Keep what was raised for the OuterMiddleware: Litestar's hook after every exception."""
    where: Any = scope
    where[RAISED] = error


class OuterMiddleware:
    """An ASGI application around the framework's."""

    def __init__(self, inner: Litestar, clock: Clock, end_streams: Callable[[], None]) -> None:
        self.end_streams = end_streams  # for the listener, before it stops
        self._inner = inner
        self._clock = clock

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        problem = _bad_path(scope.get("raw_path") or b"")
        if scope["type"] == "websocket":
            await self._socket(problem, scope, receive, send)
        else:
            await self._request(problem, scope, receive, send)

    async def _request(
        self, problem: Problem | None, scope: Any, receive: Receive, send: Send
    ) -> None:
        began = self._clock.monotonic()
        status = 0

        async def sending(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = self._with_allowed(scope, message["headers"])
                message = {**message, "headers": [*sent, *HEADERS]}
            await send(message)

        try:
            if problem is not None:
                await _answer(problem, sending)
            else:
                await self._inner(scope, _unless_it_drips(receive), sending)
        except asyncio.CancelledError:
            if not status:
                await _answer(ShuttingDown(), sending)
            raise
        finally:
            # A caller may make up methods, and each label would be kept for ever.
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = scope.get("path_template") or "none"
            _seconds(method, route, str(status)).observe(self._clock.monotonic() - began)

    def _with_allowed(self, scope: Any, headers: Any) -> Any:
        """Correct `Allow` of OPTIONS: the framework lists the methods of one handler alone."""
        if scope["method"] != "OPTIONS":
            return headers
        template = scope.get("path_template", "")
        methods = {
            method
            for route in self._inner.routes
            if isinstance(route, HTTPRoute) and route.path_format == template
            for method in route.methods
        }
        allowed = ", ".join(sorted(methods)).encode()
        return [(name, allowed if name == b"allow" else value) for name, value in headers]

    async def _socket(
        self, problem: Problem | None, scope: Any, receive: Receive, send: Send
    ) -> None:
        opened = False

        async def sending(message: Any) -> None:
            nonlocal opened
            if message["type"] == "websocket.close" and not opened and RAISED in scope:
                opened = True
                await refuse(problem_of(scope[RAISED]), scope, send)
                return
            opened = opened or message["type"] != "websocket.close"
            await send(message)

        if problem is not None:
            await receive()  # the server speaks first: websocket.connect
            await refuse(problem, scope, send)
            return
        try:
            await self._inner(scope, receive, sending)
        except asyncio.CancelledError:
            if not opened:
                await refuse(ShuttingDown(), scope, send)
            raise


def _unless_it_drips(receive: Receive) -> Receive:
    """Return what receives a request, and gives up (408) on a body that comes too slowly.

    Only the time that is spent waiting for the client counts: it may be we who are slow.
    """
    loop = asyncio.get_running_loop()
    left, missing, whole = BODY_SECONDS, BODY_PIECE, False

    async def receiving() -> Any:
        nonlocal left, missing, whole
        if whole:
            return await receive()
        began = loop.time()
        try:
            async with asyncio.timeout(left):
                message: Any = await receive()
        except TimeoutError:
            words = f"the body came too slowly: less than {BODY_PIECE} bytes in {BODY_SECONDS:g} s"
            raise Problem(408, "RequestTimeout", words) from None
        left -= loop.time() - began
        missing -= len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if missing <= 0:
            left, missing = BODY_SECONDS, BODY_PIECE
        return message

    return receiving


async def _answer(problem: Problem, send: Any) -> None:
    body = problem.body()
    headers = [
        (b"content-type", PROBLEM_JSON.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _bad_path(raw: bytes) -> Problem | None:
    """Refuse a path that would be read as another one."""
    path = raw.partition(b"?")[0]
    if b"//" in path:
        return _refusal(path, "a part of it is empty")
    if b"%" not in path and path.isascii():
        return None
    if _CODED_SLASH.search(path):
        return _refusal(path, "a part of it has a slash or a backslash, which no name has")
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return _refusal(path, "it is not UTF-8")
    return None


def _refusal(path: bytes, why: str) -> Problem:
    if b"/tenants/" in path:
        return Problem(400, "BadTenantId", f"{why}: {TENANT_RULE}")
    return Problem(400, "BadPath", f"this path names nothing: {why}")
