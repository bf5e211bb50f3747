"""A container's output as it comes, beside its log: for attach.

    Pump ─► Tapped.write ─┬─► LogFile ─► Past (what was written before)
                          └─► taps (event loop) ─► attach sessions

A session that does not read loses its oldest output; the container is not made to wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Literal

from boilerhouse.embedded.kubelet.logs.log import LogFile
from boilerhouse.embedded.kubelet.logs.logread import Past

StreamName = Literal["stdout", "stderr"]
_UNREAD_BYTES = 8 << 20


class Tap:
    """One listener. Belongs to the event loop."""

    def __init__(self, past: Past | None, *, ended: bool) -> None:
        self._past = past
        self._pieces: deque[tuple[StreamName, bytes]] = deque()
        self._unread = 0
        self._news = asyncio.Event()
        self._ended = ended

    async def read(self) -> tuple[StreamName, bytes] | None:
        """Return the next piece, None at the end."""
        if self._past is not None:
            if piece := await asyncio.to_thread(self._past.read):
                return piece
            self._past = None
        while not self._pieces:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        stream, data = self._pieces.popleft()
        self._unread -= len(data)
        return stream, data

    def put(self, stream: StreamName, data: bytes) -> None:
        self._pieces.append((stream, data))
        self._unread += len(data)
        while self._unread > _UNREAD_BYTES:
            self._unread -= len(self._pieces.popleft()[1])
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()


class Tapped:
    """A log that others may listen to; implements `LogSink`."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self._loop = asyncio.get_running_loop()
        # Guards the moment where a listener begins: a byte is in its past or comes by its tap.
        self._lock = threading.Lock()
        self._taps: frozenset[Tap] = frozenset()
        self._listened_to = False

    def write(self, stream: StreamName, data: bytes) -> None:
        with self._lock:
            self.file.write(stream, data)
            taps = self._taps
        if taps:
            self._loop.call_soon_threadsafe(_share, taps, stream, data)

    def flush(self) -> None:
        with self._lock:
            self.file.flush()

    def close(self) -> None:
        with self._lock:
            self.file.close()
            taps = self._taps
        if taps:
            self._loop.call_soon_threadsafe(_end, taps)

    def open(self, *, from_start: bool) -> Tap:
        """Listen from now on; blocks for as long as a line takes to be written.

        With `from_start` the first who listens gets what was written before, too: a program that
        ends at once (`kubectl run -i --rm … echo`) has said all before any client can attach.
        """
        with self._lock:
            past = None
            if from_start and not self._listened_to:
                self.file.flush()
                past = Past(self.file.path)
            self._listened_to = True
            tap = Tap(past, ended=self.file.closed)
            self._taps |= {tap}
        return tap

    def let_go(self, tap: Tap) -> None:
        with self._lock:
            self._taps -= {tap}


def _share(taps: frozenset[Tap], stream: StreamName, data: bytes) -> None:
    for tap in taps:
        tap.put(stream, data)


def _end(taps: frozenset[Tap]) -> None:
    for tap in taps:
        tap.end()
