"""Answers that go on: pieces are sent as they come, until their end or the caller's.

handler opens the source ─► Streaming ─► pieces ─► caller
                                └─► closes it, in the task that opened it

A source (a log, a command, the feed) is opened before the first byte is answered, so that what is
wrong with it is still an honest status code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from litestar import Response
from litestar.types import ASGIApp, Receive, Scope, Send

from boilerhouse.edge.api.hangup import Connected, HungUp, ShuttingDown, Streams


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
        self._begun = False
        self._more_headers = dict(headers or {})
        self._streams = streams
        self._chunks = chunks
        self._opened = opened or AsyncExitStack()

    def to_asgi_response(self, *_: object, **__: object) -> ASGIApp:  # type: ignore[override]
        # Litestar asks for its own class, and calls what it gets as an ASGI application
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._opened:
                with Connected(receive, self._streams):
                    await self._send(send)
        except HungUp:
            pass
        except ShuttingDown:
            if not self._begun:
                raise

    async def _send(self, send: Send) -> None:
        headers = [
            (b"content-type", str(self.media_type).encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # a proxy that collects pieces spoils the point
            *((name.encode(), value.encode()) for name, value in self._more_headers.items()),
        ]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        self._begun = True
        closing = getattr(self._chunks, "aclose", None)
        try:
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            if closing is not None:
                await closing()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
