"""A WebSocket on an upgraded HTTP connection, read on demand.

Http.socket ──► 101 ──► WebSocket ──► exec channels

httpx2 brings a session of its own, but that reads ahead in a background task, wraps what the caller
raises into groups, and closes under a shield without a deadline. Here nothing runs unless somebody
calls: a peer that floods us waits in its own send buffer, and closing takes at most a second.
Framing is wsproto's.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import deque
from typing import Protocol

import httpcore2
from wsproto import events
from wsproto.connection import Connection, ConnectionType
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from boilerhouse.platform.kube.status import ApiError, Unavailable

MESSAGE_LIMIT = 16 << 20
READ_SIZE = 1 << 14
# Events that are handed out in one turn of the event loop: others must have theirs, however many
# frames a few kilobytes are.
EVENTS_IN_TURN = 64
CLOSE_DEADLINE = 1.0

# An upgraded connection is handed out raw, with the errors of the library below httpx2.
_NETWORK: tuple[type[Exception], ...] = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    OSError,
)
_READING: tuple[type[Exception], ...] = (*_NETWORK, RemoteProtocolError)
_WRITING: tuple[type[Exception], ...] = (*_NETWORK, LocalProtocolError)
_CLOSING: tuple[type[Exception], ...] = (*_WRITING, TimeoutError)


class ByteStream(Protocol):
    """The network stream under an upgraded connection, as httpx2 hands it out."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...
    async def write(self, buffer: bytes, timeout: float | None = None) -> None: ...
    async def aclose(self) -> None: ...


def accept_token(key: str) -> str:
    """Compute what a server must answer to `Sec-WebSocket-Key` (RFC 6455, 4.2.2)."""
    digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()  # noqa: S324 - the protocol's own
    return base64.b64encode(digest).decode()


class WebSocket:
    """The client's end. One task may send while another receives."""

    def __init__(self, stream: ByteStream, subprotocol: str | None) -> None:
        self.subprotocol = subprotocol
        self._stream = stream
        self._connection = Connection(ConnectionType.CLIENT)
        self._events: deque[events.Event] = deque()
        self._taken = 0
        self._sending = asyncio.Lock()
        self._pong = b""
        self._closed = False
        self._broken = False

    async def send(self, message: bytes) -> None:
        """Send one binary message; waits while the peer does not take it."""
        await self._write(events.BytesMessage(data=message))

    async def receive(self) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        while True:
            event = await self._next()
            if event is None:
                return None
            if isinstance(event, events.Message):
                data = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
                size += len(data)
                if size > MESSAGE_LIMIT:
                    raise ApiError(f"the server sent a message of more than {MESSAGE_LIMIT} bytes")
                parts.append(data)
                if event.message_finished:
                    return b"".join(parts)
            elif isinstance(event, events.Ping):
                await self._answer(event)
            elif isinstance(event, events.CloseConnection):
                self._closed = True
                await self._say_goodbye(event.response())
                return None

    async def close(self) -> None:
        """Say goodbye if there is time, and hang up."""
        if not self._closed:
            self._closed = True
            await self._say_goodbye(events.CloseConnection(code=1000))
        try:
            async with asyncio.timeout(CLOSE_DEADLINE):
                await self._stream.aclose()
        except _CLOSING:
            pass  # it is gone, which is what was asked for

    async def _next(self) -> events.Event | None:
        while not self._events:
            if self._closed:
                return None
            try:
                data = await self._stream.read(READ_SIZE)
                if not data:
                    self._closed = True
                    return None
                self._connection.receive_data(data)
                self._events.extend(self._connection.events())
            except _READING as error:
                self._closed = True
                raise Unavailable(f"the connection broke: {describe(error)}") from error
        self._taken += 1
        if self._taken % EVENTS_IN_TURN == 0:
            await asyncio.sleep(0)
        return self._events.popleft()

    async def _answer(self, ping: events.Ping) -> None:
        # A sender that waits for the peer holds the lock. Waiting for it here would stop reading,
        # and two ends that only write wait for ever: the answer goes out with its next message.
        if self._sending.locked():
            self._pong = self._connection.send(ping.response())
        else:
            await self._write(ping.response())

    async def _write(self, event: events.Event) -> None:
        async with self._sending:
            if self._closed or self._broken:
                raise Unavailable("the connection is closed")
            try:
                data = self._pong + self._connection.send(event)
                self._pong = b""
                self._broken = True  # unless the whole frame goes out
                await self._stream.write(data)
                self._broken = False
            except _WRITING as error:
                raise Unavailable(f"the connection broke: {describe(error)}") from error

    async def _say_goodbye(self, event: events.Event) -> None:
        if self._broken:
            return
        try:
            async with asyncio.timeout(CLOSE_DEADLINE), self._sending:
                await self._stream.write(self._connection.send(event))
        except _CLOSING:
            pass  # politeness only


def describe(error: BaseException) -> str:
    """Name an error: many of the network's have no text of their own."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
