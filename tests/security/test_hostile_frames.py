"""WebSocket frames that are small and many: their sender waits, and others do not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from boilerhouse.core.connections import ConnectionLimit
from boilerhouse.platform.serving.listening import Listener, bind
from boilerhouse.platform.serving.websockets import FRAMES_PER_SECOND


class Sink:
    """Takes whatever comes, as an application that only reads; and answers plain requests."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            self.messages.append(message.get("bytes") or b"")

    def end_streams(self) -> None:
        """Nothing goes on by itself."""


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Sink, int]]:
    sink = Sink()
    bound = bind("127.0.0.1", [0])
    listener = Listener(bound, sink, ConnectionLimit("test"))
    await listener.start()
    try:
        yield sink, bound.getsockname()[1]
    finally:
        await listener.stop()


def frame(payload: bytes, opcode: int = 2) -> bytes:
    head = bytes([0x80 | opcode])
    if len(payload) < 126:
        head += bytes([0x80 | len(payload)])
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", len(payload))
    return head + bytes(4) + payload  # a mask of zeros leaves the payload as it is


@contextlib.asynccontextmanager
async def connected(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def flood(port: int, piece: bytes, seconds: float) -> None:
    """Send as fast as it is taken, from a thread: the attacker has a processor of its own."""
    with socket.create_connection(("127.0.0.1", port)) as made:
        made.sendall(
            b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        made.recv(4096)
        made.settimeout(0.2)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                made.send(piece * 20_000)


@pytest.mark.parametrize(
    "piece", [frame(b"x"), frame(b""), frame(b"p", 9), frame(b"p", 10)],
    ids=["data", "empty", "ping", "pong"],
)  # fmt: skip
async def test_tiny_frames_without_end_are_taken_at_a_bounded_rate(piece: bytes) -> None:
    """A connection that sends as fast as it can leaves most of the loop's time to others."""
    async with served() as (sink, port):
        flooding = asyncio.create_task(asyncio.to_thread(flood, port, piece, 3.0))
        await asyncio.sleep(1.0)  # the burst that anybody may have
        before, began = time.thread_time(), asyncio.get_running_loop().time()
        had = len(sink.messages)
        await asyncio.sleep(1.5)
        seconds = asyncio.get_running_loop().time() - began
        assert len(sink.messages) - had <= FRAMES_PER_SECOND * (seconds + 1.5)
        assert time.thread_time() - before < 0.6 * seconds, "the loop had time for others"
        await flooding


async def test_large_messages_are_whole_and_not_slowed_down() -> None:
    """What is sent in large frames, or slowly, arrives as it was sent."""
    sent = [os.urandom(size) for size in (1, 100, 5000, 300_000, 1024, 1, 2_000_000)]
    async with served() as (sink, port), connected(port) as (reader, writer):
        for payload in sent:
            writer.write(frame(payload))
            await writer.drain()
        writer.write(frame(struct.pack("!H", 1000), 8))
        async with asyncio.timeout(20):
            await reader.read()  # the server's own close, once it has read ours
        assert sink.messages == sent


async def test_a_burst_of_small_messages_arrives_in_order_and_to_the_last() -> None:
    """Also the end of it, and the close that follows at once."""
    sent = [b"%d" % number for number in range(1500)]
    async with served() as (sink, port), connected(port) as (reader, writer):
        writer.write(b"".join(map(frame, sent)) + frame(struct.pack("!H", 1000), 8))
        await writer.drain()
        async with asyncio.timeout(20):
            await reader.read()  # the server's own close, once it has read ours
        assert sink.messages == sent


async def test_a_hang_up_in_the_midst_of_a_flood_is_noticed() -> None:
    """Nothing is left of a connection that ends while its frames wait."""
    async with served() as (sink, port):
        async with connected(port) as (_, writer):
            writer.write(frame(b"x") * 20_000)
            await asyncio.sleep(0.3)
        await asyncio.sleep(0.1)
        assert sink.messages
