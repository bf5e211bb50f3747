"""A watchdog for the event loop: reports every stall over 100 ms with the stack that caused it.

loop ─► a beat each 50 ms ─► Heartbeat: when the next one is due
thread ─► it is 100 ms late ─► take the stack of the loop's thread, while it stalls
       └► it has come ─► log `loop.stalled`, count boilerhouse_event_loop_stalls_total

One thread answers everybody, so whatever holds it is felt by all. A stall has one of three causes:

* busy: the loop's thread computed, and the stack says what;
* blocked: it waited in a system call or for a lock, and the stack says where;
* starved: it was ready and had no processor, since the machine is overloaded; or the whole process
  was stopped, and the watchdog's own thread came as late.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from types import FrameType

import msgspec
import structlog
from prometheus_client import Counter, Histogram

from boilerhouse.core.clock import SystemClock

STALL = 0.1  # seconds by which a beat is late in a stall that is reported
BEAT = 0.05  # seconds between two beats
ENDLESS = 10.0  # seconds after which a stall is reported although it goes on
FRAMES = 16  # of a stack, the innermost
LINES = 10  # of the log, at most, in each `WINDOW`
WINDOW = 60.0  # seconds

STALLS = Counter(
    "boilerhouse_event_loop_stalls",
    "Stalls of the event loop over 100 ms, by cause: busy, blocked, starved.",
    ["cause"],
)
SECONDS = Histogram(
    "boilerhouse_event_loop_stall_seconds",
    "How long the event loop stalled, of stalls over 100 ms.",
    buckets=(0.25, 0.5, 1, 2.5, 5, 10, 30),
)

log = structlog.get_logger()
_monotonic = SystemClock.monotonic


class Stall(msgspec.Struct, frozen=True):
    """One stall. `processor` is what the loop's own thread computed in it, in seconds."""

    seconds: float
    processor: float
    starved: float  # of it, how long the thread was ready and no processor was free
    stack: tuple[str, ...]  # the innermost frame last

    @property
    def cause(self) -> str:
        if self.processor >= self.seconds / 2:
            return "busy"
        return "starved" if self.starved >= self.seconds / 2 else "blocked"


class Beat(msgspec.Struct, frozen=True):
    """A beat that is to come. `processor` is the loop's thread's processor time at the last one."""

    number: int
    due: float
    processor: float


class _Caught(msgspec.Struct):
    """A stall while it goes on."""

    beat: Beat
    stack: tuple[str, ...]
    late: float = 0.0
    reported: bool = False


class Heartbeat:
    """What the loop's thread notes at each beat. Read by the watchdog's thread, without a lock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._processor = time.pthread_getcpuclockid(self._thread)
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        # Its own: the beat is no part of the work that happened to start the watchdog.
        self._context = contextvars.Context()
        # Replaced as a whole, so that a reader never sees half of a beat.
        self.next = Beat(1, _monotonic() + BEAT, time.thread_time())
        self.missed: deque[tuple[Beat, float, float]] = deque(maxlen=LINES)
        self._timer = loop.call_later(BEAT, self._beat, context=self._context)

    def _beat(self) -> None:
        now, processor = _monotonic(), time.thread_time()
        beat = self.next
        if now - beat.due >= STALL:
            self.missed.append((beat, now - beat.due, processor - beat.processor))
        self.next = Beat(beat.number + 1, now + BEAT, processor)
        self._timer = self._loop.call_later(BEAT, self._beat, context=self._context)

    def stop(self) -> None:
        self._timer.cancel()

    def stack(self) -> tuple[str, ...]:
        """Return where the loop's thread is now; nothing if it has ended."""
        frame = sys._current_frames().get(self._thread)
        return tuple(places(frame))[::-1]

    def processor(self) -> float:
        """Return the processor time of the loop's thread, asked from another thread."""
        return time.clock_gettime(self._processor)

    def starved(self) -> float:
        """Return how long the loop's thread has waited for a processor, in its whole life."""
        try:
            return int(self._schedule.read_bytes().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):  # a kernel that does not count it
            return 0.0


class Watchdog:
    """Watches one loop from a thread of its own."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._caught: _Caught | None = None  # the stall that goes on
        self._starved = 0.0  # the thread's wait for processors, when all was well
        self._told: deque[float] = deque(maxlen=LINES)  # when the last lines were logged
        self._unreported = 0

    def start(self) -> None:
        self._starved = self._heartbeat.starved()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            wanted = max(self._heartbeat.next.due + STALL, _monotonic() + BEAT)
            stopping = self._stopping.wait(wanted - _monotonic())
            self._look(late=_monotonic() - wanted)

    def _look(self, late: float) -> None:
        beat = self._heartbeat.next
        since = _monotonic() - beat.due
        if since >= STALL and (self._caught is None or self._caught.beat is not beat):
            stack = self._heartbeat.stack()
            if self._heartbeat.next is beat:  # or the stack is not of the stall
                self._caught = _Caught(beat, stack)
        starved = self._heartbeat.starved()
        waited = max(late, starved - self._starved)
        if self._caught is not None:
            self._caught.late = max(self._caught.late, late)
            if self._caught.beat is beat and since >= ENDLESS and not self._caught.reported:
                self._caught.reported = True
                processor = self._heartbeat.processor() - beat.processor
                waited = max(waited, self._caught.late)
                self._report(Stall(since, processor, waited, self._caught.stack), goes_on=True)
        while self._heartbeat.missed:
            missed, seconds, processor = self._heartbeat.missed.popleft()
            caught = self._caught
            if caught is None or caught.beat is not missed:
                caught = _Caught(missed, ())
            stall = Stall(seconds, processor, max(waited, caught.late), caught.stack)
            STALLS.labels(stall.cause).inc()
            SECONDS.observe(seconds)
            self._report(stall, goes_on=False)
        if since < STALL:
            self._starved = starved

    def _report(self, stall: Stall, goes_on: bool) -> None:
        now = _monotonic()
        if len(self._told) == LINES and now - self._told[0] < WINDOW:
            self._unreported += 1
            return
        self._told.append(now)
        # A machine without a processor to spare is worth knowing, and no fault of ours.
        tell = log.info if stall.cause == "starved" else log.warning
        tell(
            "loop.stalled",
            milliseconds=round(stall.seconds * 1000),
            processor_milliseconds=round(stall.processor * 1000),
            cause=stall.cause,
            goes_on=goes_on,
            unreported=self._unreported,
            stack="\n".join(stall.stack),  # a string, as structlog's renderers expect it
        )
        self._unreported = 0


@contextmanager
def watched() -> Iterator[None]:
    """Watch the running loop while the context lasts."""
    heartbeat = Heartbeat(asyncio.get_running_loop())
    watchdog = Watchdog(heartbeat)
    watchdog.start()
    try:
        yield
    finally:
        heartbeat.stop()
        watchdog.stop()


def places(frame: FrameType | None) -> Iterator[str]:
    """Name the innermost frames, without reading a file: `watch.py:41 read`."""
    for _ in range(FRAMES):
        if frame is None:
            return
        code = frame.f_code
        file = "/".join(PurePath(code.co_filename).parts[-3:])
        yield f"{file}:{frame.f_lineno} {code.co_qualname}"
        frame = frame.f_back
