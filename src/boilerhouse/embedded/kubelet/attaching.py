"""A container's output as it comes, beside its log: for attach.

    Pump ─► Tapped.write ─┬─► LogFile
                          └─► taps (event loop) ─► attach sessions

A session that does not read loses its oldest output; the container is not made to wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal

from boilerhouse.embedded.kubelet.logs import LogFile

StreamName = Literal["stdout", "stderr"]
_PIECES = 1024


class Tap:
    """One listener. Belongs to the event loop."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[StreamName, bytes]] = deque(maxlen=_PIECES)
        self._news = asyncio.Event()
        self._ended = False

    async def read(self) -> tuple[StreamName, bytes] | None:
        """Return the next piece, None at the end."""
        while not self._pieces:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        return self._pieces.popleft()

    def put(self, stream: StreamName, data: bytes) -> None:
        self._pieces.append((stream, data))
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()


class Tapped:
    """A log that others may listen to; implements `LogSink`."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self._loop = asyncio.get_running_loop()
        self._taps: set[Tap] = set()

    def write(self, stream: StreamName, data: bytes) -> None:
        self.file.write(stream, data)
        if self._taps:
            self._loop.call_soon_threadsafe(self._share, stream, data)

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()
        if self._taps:
            self._loop.call_soon_threadsafe(self._end)

    def open(self) -> Tap:
        """Listen from now on."""
        tap = Tap()
        self._taps.add(tap)
        if self.file.closed:
            tap.end()
        return tap

    def let_go(self, tap: Tap) -> None:
        self._taps.discard(tap)

    def _share(self, stream: StreamName, data: bytes) -> None:
        for tap in self._taps:
            tap.put(stream, data)

    def _end(self) -> None:
        for tap in self._taps:
            tap.end()
