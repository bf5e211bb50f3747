"""The client's end of a WebSocket: what a server that floods it does to others on the loop."""

from __future__ import annotations

import asyncio

from wsproto import events
from wsproto.connection import Connection, ConnectionType

from boilerhouse.platform.kube.websocket import EVENTS_IN_TURN, WebSocket

COUNT = 5000


class Flood:
    """A stream that always has more to read, and never makes anybody wait."""

    def __init__(self) -> None:
        server = Connection(ConnectionType.SERVER)
        frames = [server.send(events.BytesMessage(data=b"x")) for _ in range(COUNT)]
        self._data = b"".join(frames)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        piece, self._data = self._data[:max_bytes], self._data[max_bytes:]
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        return

    async def aclose(self) -> None:
        return


async def test_tiny_messages_without_end_leave_the_loop_to_others() -> None:
    """Every so many of them somebody else has a turn."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    socket = WebSocket(Flood(), None)
    for _ in range(COUNT):
        assert await socket.receive() == b"x"
    task.cancel()
    assert turns >= COUNT // EVENTS_IN_TURN
    assert await socket.receive() is None
