"""One thread that carries what containers print from their pipes to their logs.

    pipe ─► Pump (its thread) ─► LogSink.write ─► file

Apart from the event loop because files block. A container that prints faster than a log is worth is
slowed down by its own full pipe: the pump takes at most so much of it per second.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Literal

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.container import LogSink

_CHUNK = 64 * 1024
_BYTES_PER_SECOND = 16 * 1024 * 1024
_BURST = 4 * 1024 * 1024
_UNFINISHED_SECONDS = 0.25  # how long a line without its end waits for it

StreamName = Literal["stdout", "stderr"]


class Output:
    """The streams of one container; `ended` is called, in the pump's thread, at the end."""

    def __init__(self, streams: dict[int, StreamName], sink: LogSink, ended: Callable[[], None]):
        self.streams = streams
        self.sink = sink
        self.ended = ended
        self.allowance = float(_BURST)
        self.counted_at = 0.0
        self.paused = False
        self.unfinished_since: float | None = None  # a line was begun then, and has no end yet


class Pump:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._lock = threading.Lock()
        self._orders: list[Callable[[], None]] = []
        self._outputs: set[Output] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="log-pump", daemon=True)
        self._thread.start()

    def add(self, output: Output) -> None:
        """Carry these streams until they end; the descriptors are the pump's now."""
        for fd in output.streams:
            os.set_blocking(fd, False)
        self._order(lambda: self._begin(output))

    def cut(self, output: Output) -> None:
        """Stop waiting for the end: a descriptor may have been given to somebody who lives on."""
        self._order(lambda: self._end(output))

    def close(self) -> None:
        def stop() -> None:
            self._stopping = True

        self._order(stop)
        self._thread.join()
        self._woken.close()
        self._wake.close()

    def _order(self, order: Callable[[], None]) -> None:
        with self._lock:
            self._orders.append(order)
        self._wake.send(b"w")

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(self._until_due()):
                if key.data is None:
                    self._obey()
                elif isinstance(key.data, Output):
                    self._carry(key.fd, key.data)
        for output in list(self._outputs):
            self._end(output)
        self._selector.close()

    def _obey(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        with self._lock:
            orders, self._orders = self._orders, []
        for order in orders:
            order()

    def _begin(self, output: Output) -> None:
        output.counted_at = self._clock.monotonic()
        self._outputs.add(output)
        for fd in output.streams:
            self._selector.register(fd, selectors.EVENT_READ, output)

    def _carry(self, fd: int, output: Output) -> None:
        if fd not in output.streams or output.paused:
            return
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose program is gone
            data = b""
        if not data:
            self._selector.unregister(fd)
            os.close(fd)
            del output.streams[fd]
            if not output.streams:
                self._end(output)
            return
        output.sink.write(output.streams[fd], data)
        if not data.endswith(b"\n") and output.unfinished_since is None:
            output.unfinished_since = self._clock.monotonic()
        self._count(output, len(data))

    def _count(self, output: Output, size: int) -> None:
        now = self._clock.monotonic()
        earned = (now - output.counted_at) * _BYTES_PER_SECOND
        output.allowance = min(_BURST, output.allowance + earned) - size
        output.counted_at = now
        if output.allowance < 0:
            output.paused = True
            for fd in output.streams:
                self._selector.unregister(fd)

    def _until_due(self) -> float | None:
        """Flush lines and resume outputs that are due; return the seconds until the next is."""
        waits = []
        for output in self._outputs:
            if output.unfinished_since is not None:
                waited = self._clock.monotonic() - output.unfinished_since
                if waited < _UNFINISHED_SECONDS:
                    waits.append(_UNFINISHED_SECONDS - waited)
                else:
                    output.unfinished_since = None
                    output.sink.flush()
            if not output.paused:
                continue
            owed = -output.allowance / _BYTES_PER_SECOND
            left = owed - (self._clock.monotonic() - output.counted_at)
            if left > 0:
                waits.append(left)
                continue
            output.paused = False
            for fd in output.streams:
                self._selector.register(fd, selectors.EVENT_READ, output)
        return min(waits, default=None)

    def _end(self, output: Output) -> None:
        if output not in self._outputs:
            return
        self._outputs.discard(output)
        for fd in output.streams:
            if not output.paused:
                self._selector.unregister(fd)
            os.close(fd)
        output.streams = {}
        output.sink.close()
        output.ended()
