"""WebSockets: how they are refused before they open, and how two are joined.

guard, handler ─► Problem ─► an HTTP answer in place of the handshake, or a close code after it
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from litestar.connection import WebSocket
from litestar.exceptions import WebSocketDisconnect
from litestar.types import Message, Send

from boilerhouse.edge.api.errors import PROBLEM_JSON, Problem, problem_of

GOING_AWAY = 1001
OVERRUN = 1013  # try again later
FAILED = 1011

Peer = WebSocket[Any, Any, Any]


def code_of(problem: Problem) -> int:
    """Return the close code of a problem: 4000 and the status, for who has no status any more."""
    return 4000 + problem.status


async def refuse(problem: Problem, scope: Any, send: Send) -> None:
    """Answer a handshake with a problem, as plain HTTP where the server knows how."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send(_close(problem))
        return
    headers = [(b"content-type", PROBLEM_JSON.encode())]
    headers += [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    start: Any = {
        "type": "websocket.http.response.start",
        "status": problem.status,
        "headers": headers,
    }
    body: Any = {"type": "websocket.http.response.body", "body": problem.body()}
    await send(start)
    await send(body)


def _close(problem: Problem) -> Message:
    # A control frame has room for 123 bytes of reason.
    reason = problem.message.encode()[:120].decode(errors="ignore")
    return {"type": "websocket.close", "code": code_of(problem), "reason": reason}


@asynccontextmanager
async def answering(socket: Peer) -> AsyncGenerator[None]:
    """Run a handler's talk: what it raises closes the socket with a code; a hang-up ends it."""
    try:
        yield
    except WebSocketDisconnect:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the peer is told in one way
        problem = problem_of(error)
        if socket.connection_state == "disconnect":
            return
        if socket.connection_state == "init":
            await refuse(problem, socket.scope, socket.send)
        else:
            await socket.send(_close(problem))


async def first_to_end(*talks: Coroutine[Any, Any, None]) -> None:
    """Run both directions of a talk; when one ends, so does the other."""
    tasks = [asyncio.ensure_future(talk) for talk in talks]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
