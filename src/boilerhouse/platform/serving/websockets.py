"""uvicorn's WebSocket protocol with a bound on the small frames of one connection.

bytes ─► held ─► a slice ─► parser ─► messages ─► the application
            └─ frames too fast: the rest waits, reading pauses, the peer waits in its send buffer

uvicorn parses all that has come at once: a quarter of a megabyte may be forty thousand frames of
one byte, and nobody else has the event loop until all of them are through. Here a turn of the loop
takes few of them, a second no more than `FRAMES_PER_SECOND`. Frames of a kilobyte and more are not
counted: their bytes cost more than their number.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from boilerhouse.core.pace import Pace

if TYPE_CHECKING:
    from websockets.frames import Frame

FRAMES_PER_SECOND = 1000
SMALL = 1024  # bytes of a frame that counts
FRAMES_IN_TURN = 64
SLICE = 1024  # bytes: no more than 170 frames
BYTES_IN_TURN = 64 * 1024


class PacedWebSocket(WebSocketsSansIOProtocol):
    """A connection that cannot have the event loop for itself.

    While bytes are held nothing is read, so there are never more than one read brings.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._held = bytearray()
        self._later: asyncio.Handle | None = None
        self._pace = Pace(FRAMES_PER_SECOND)
        self._frames = 0

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._later is None and not self.read_paused:
            self._feed()
        else:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._held.clear()
        self._wait(None)
        super().connection_lost(exc)

    async def receive(self) -> Any:
        """As uvicorn's; but what is held comes before what can be read."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if not self._held:
                self.transport.resume_reading()
            elif self._later is None:
                self._wait(0.0)
        return message

    def handle_cont(self, event: Frame) -> None:
        self._count(event)
        super().handle_cont(event)

    def handle_text(self, event: Frame) -> None:
        self._count(event)
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._count(event)
        super().handle_bytes(event)

    def handle_ping(self) -> None:
        self._frames += 1
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        self._count(event)
        super().handle_pong(event)

    def _count(self, event: Frame) -> None:
        if len(event.data) < SMALL:
            self._frames += 1

    def _feed(self) -> None:
        """Parse what is held until the application has something to do, or others have a turn."""
        self._later = None
        self._frames = size = 0
        while self._held and not self.read_paused and not self.transport.is_closing():
            piece = bytes(self._held[:SLICE])
            del self._held[:SLICE]
            size += len(piece)
            super().data_received(piece)
            if self._frames >= FRAMES_IN_TURN or size >= BYTES_IN_TURN:
                break
        owed = self._pace.owed(self._frames)
        if owed or self._held:
            self.transport.pause_reading()
        if owed:
            self._wait(owed)
        elif self._held and not self.read_paused:
            self._wait(0.0)
        elif not self._held and not self.read_paused:
            self.transport.resume_reading()

    def _wait(self, seconds: float | None) -> None:
        """Go on in so many seconds, or not at all."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if seconds:
            self._later = self.loop.call_later(seconds, self._feed)
        elif seconds is not None:
            self._later = self.loop.call_soon(self._feed)
