"""Connection limits of a listener, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from boilerhouse.core.connections import ConnectionLimit
from boilerhouse.platform.serving.listening import Listener, bind


class Patient:
    """Answers /slow when told to go on, everything else at once."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self.proceed = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            self.entered.release()
            await self.proceed.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    def end_streams(self) -> None:
        self.proceed.set()


class Peer:
    """A connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, path: str) -> None:
        self.writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        await self.writer.drain()

    async def answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        return head.split(b"\r\n")[0] + b" " + await self.reader.readexactly(2)

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


OK = b"HTTP/1.1 200 OK ok"


class Rig:
    def __init__(self, most: int) -> None:
        self.limit = ConnectionLimit("test", most)
        self.application = Patient()
        self._bound = bind("127.0.0.1", [0])
        self._writers: list[asyncio.StreamWriter] = []
        self.listener = Listener(self._bound, self.application, self.limit)

    async def connect(self) -> Peer:
        reader, writer = await asyncio.open_connection(*self._bound.getsockname()[:2])
        self._writers.append(writer)
        return Peer(reader, writer)

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def listening(most: int) -> AsyncIterator[Rig]:
    rig = Rig(most)
    await rig.listener.start()
    try:
        async with asyncio.timeout(20):
            yield rig
    finally:
        rig.close()
        await rig.listener.stop()
    assert rig.limit.open == 0


async def test_at_the_limit_the_longest_idle_connection_makes_room() -> None:
    """A new caller is answered; the one that has said nothing for longest is closed for it."""
    async with listening(3) as rig:
        silent, kept = await rig.connect(), await rig.connect()
        await kept.ask("/")
        assert await kept.answer() == OK
        slow = await rig.connect()
        await slow.ask("/slow")
        await rig.application.entered.acquire()
        new = await rig.connect()
        await new.ask("/")
        assert await new.answer() == OK
        assert await silent.is_closed()
        assert rig.limit.open <= rig.limit.most
        rig.application.proceed.set()
        assert await slow.answer() == OK


@pytest.mark.slow
async def test_when_all_are_busy_the_next_one_waits_and_is_not_refused() -> None:
    """Accepting pauses until a connection ends, and goes on by itself."""
    async with listening(2) as rig:
        busy = [await rig.connect() for _ in range(2)]
        for one in busy:
            await one.ask("/slow")
            await rig.application.entered.acquire()
        waiting = await rig.connect()
        await waiting.ask("/")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await waiting.answer()
        assert rig.limit.paused == 1
        busy[0].writer.transport.abort()
        rig.application.proceed.set()
        assert await waiting.answer() == OK
        assert await busy[1].answer() == OK


async def test_half_a_header_does_not_hold_a_place() -> None:
    """Who has not said what it wants yet makes room like one who says nothing."""
    async with listening(1) as rig:
        half = await rig.connect()
        half.writer.write(b"GET / HTTP/1.1\r\nhost")
        await half.writer.drain()
        new = await rig.connect()
        await new.ask("/")
        assert await new.answer() == OK
        assert await half.is_closed()
        assert rig.limit.made_room == 1


async def test_what_ends_before_it_is_served_gives_its_place_back() -> None:
    """A peer that is gone at once, or resets, is not counted for ever."""
    async with listening(2) as rig:
        for _ in range(20):
            peer = await rig.connect()
            raw = peer.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.writer.transport.abort()
        last = await rig.connect()
        await last.ask("/")
        assert await last.answer() == OK
