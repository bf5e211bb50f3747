"""A connection that is kept, and requests on it: as little client as possible.

What a client does for a request is part of what it measures, and on a small machine it takes its
processor from who is measured.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import msgspec

_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length: "


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection to a loopback port, for one request after another."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._got = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def __aenter__(self) -> Connection:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._transport.close()

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request; return the status and the decoded body."""
        content = b"" if body is None else msgspec.json.encode(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + content)
        status, answer = await self._answer
        return status, msgspec.json.decode(answer) if answer else None

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, content = self._got.partition(_END)
        if not end or self._answer is None:
            return
        _, stated, length = head.lower().partition(_LENGTH)
        if stated and len(content) < int(length.split(b"\r\n", 1)[0]):
            return
        self._got = b""
        if not self._answer.done():
            self._answer.set_result((int(head.split(b" ", 2)[1]), content))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server hung up"))
