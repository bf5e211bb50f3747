"""Answers that go on: pieces are sent as they come, until their end or the caller's.

handler opens the source ─► Streaming ─► pieces ─► caller
                                └─► closes it, in the task that opened it

A source (a log, a command, the feed) is opened before the first byte is answered, so that what is
wrong with it is still an honest status code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from litestar import Response
from litestar.types import ASGIApp, Receive, Scope, Send

from boilerhouse.api.hangup import Connected, HungUp


class Streams:
    """The answers under way, so that stopping can end them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.stopping = False

    def enter(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def leave(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.discard(task)

    def end(self) -> None:
        """Cut off everything that would go on."""
        self.stopping = True
        for task in list(self._tasks):
            task.cancel()


class Streaming(Response[Any]):
    """An answer that goes on. `opened` holds what must be closed after the last piece."""

    def __init__(
        self,
        streams: Streams,
        chunks: AsyncIterator[bytes],
        *,
        media_type: str,
        opened: AsyncExitStack | None = None,
        headers: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> None:
        super().__init__(None, media_type=media_type, status_code=status)
        self._status = status
        self._more_headers = dict(headers or {})
        self._streams = streams
        self._chunks = chunks
        self._opened = opened or AsyncExitStack()

    def to_asgi_response(self, *_: object, **__: object) -> ASGIApp:  # type: ignore[override]
        # Litestar asks for its own class, and calls what it gets as an ASGI application
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.enter()
        try:
            async with self._opened:
                with Connected(receive):
                    await self._send(send)
        except HungUp:
            pass
        except asyncio.CancelledError:
            if not self._streams.stopping:
                raise
        finally:
            self._streams.leave()

    async def _send(self, send: Send) -> None:
        headers = [
            (b"content-type", str(self.media_type).encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # a proxy that collects pieces spoils the point
            *((name.encode(), value.encode()) for name, value in self._more_headers.items()),
        ]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        closing = getattr(self._chunks, "aclose", None)
        try:
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            if closing is not None:
                await closing()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
