"""The embedded API without HTTP: the same handlers, called directly.

kube client ──► Transport (InProcess) ──► ApiServer.handle

Not a shortcut around anything: a request goes through the same routing, validation and rendering
as one from a socket. Only bytes on a wire are saved.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.platform.kube.status import Timeout, Unavailable
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream

# How many messages may lie in a socket before its sender waits.
SOCKET_DEPTH = 64


class InProcess:
    """A `kube.wire.Transport` to a server in this process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        try:
            # What goes ahead of the disk waits for nothing.
            async with asyncio.timeout(None if request.deferred else timeout):
                answer = await self._server.handle(request)
                return answer if isinstance(answer, Reply) else await _whole(answer)
        except TimeoutError:
            raise Timeout(f"no answer within {timeout} s") from None

    @asynccontextmanager
    async def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AsyncIterator[Stream]:
        answer = await self._server.handle(request)
        if isinstance(answer, Reply):
            answer = Stream(answer.status, _once(answer.body), answer.headers)
        chunks = bounded(answer.chunks, read_timeout)
        try:
            yield Stream(answer.status, chunks, answer.headers)
        finally:
            await _close(chunks)
            await _close(answer.chunks)

    @asynccontextmanager
    async def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AsyncIterator[Socket]:
        session = await self._server.open(request, subprotocols)
        ours, theirs = _pair(session.subprotocol)
        task = asyncio.ensure_future(session.run(theirs))
        task.add_done_callback(lambda _: theirs.hang_up())
        try:
            yield ours
        finally:
            await ours.close()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """Nothing to close: the server belongs to whoever started it."""


async def bounded(chunks: AsyncIterator[bytes], longest: float | None) -> AsyncIterator[bytes]:
    """Pass on what comes; `Unavailable` if nothing does for `longest` seconds, None is for ever.

    Only waiting counts: how long the reader takes for a piece is its own affair.
    """
    while True:
        try:
            async with asyncio.timeout(longest) as silence:
                piece = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if not silence.expired():
                raise
            raise Unavailable(f"nothing was heard for {longest} s") from None
        yield piece


async def _whole(answer: Stream) -> Reply:
    pieces = [piece async for piece in answer.chunks]
    return Reply(answer.status, b"".join(pieces), answer.headers)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


async def _close(chunks: AsyncIterator[bytes]) -> None:
    closing = getattr(chunks, "aclose", None)
    if closing is not None:
        await closing()


class _End:
    """One end of a pair of connected sockets. What was sent before the end still arrives."""

    def __init__(self, subprotocol: str | None) -> None:
        self.subprotocol = subprotocol
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(SOCKET_DEPTH)
        self._closed = False
        self._ended = False
        self._peer = self

    def join(self, peer: _End) -> None:
        self._peer, peer._peer = peer, self

    async def send(self, message: bytes) -> None:
        peer = self._peer
        if not self._closed and not peer._closed:
            await peer._room.acquire()
        if self._closed or peer._closed:
            raise Unavailable("the socket is closed")
        peer._incoming.put_nowait(message)

    async def receive(self) -> bytes | None:
        if self._ended or self._closed:
            return None
        message = await self._incoming.get()
        if message is None:
            self._ended = True
        self._room.release()
        return message

    async def close(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Tell the peer that nothing more comes, and whoever waits on either end."""
        if not self._closed:
            self._closed = True
            self._peer._incoming.put_nowait(None)
            self._incoming.put_nowait(None)
            self._room.release()


def _pair(subprotocol: str | None) -> tuple[_End, _End]:
    ours, theirs = _End(subprotocol), _End(subprotocol)
    ours.join(theirs)
    return ours, theirs
