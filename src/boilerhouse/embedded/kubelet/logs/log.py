"""A container's log on disk: one entry per line of output, rotated, never larger than a few files.

    Pump ─► LogFile.write ─► 0.log ─► 0.log.1 ─► 0.log.2 ─► gone
                 └─► tells followers (logread.py)

An entry is what kubelet's runtimes write, `<time> <stdout|stderr> <F|P> <bytes>`: F ends a line, P
is a piece of one that was too long, or that was not ended soon. Output need not be text.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from boilerhouse.core.clock import Clock, rfc3339_micro

FILE_BYTES = 10 * 1024 * 1024
FILES = 3
LINE_BYTES = 16 * 1024


class LogFile:
    """Implements `LogSink`. Written by one thread, watched by any."""

    def __init__(
        self, path: Path, clock: Clock, *, file_bytes: int = FILE_BYTES, files: int = FILES
    ) -> None:
        self.path = path
        self.closed = False
        # Counts rotations: a reader at the end of a file knows by it whether there is a newer one.
        self.generation = 0
        self._clock = clock
        self._began = clock.monotonic()
        self._file_bytes = file_bytes
        self._files = files
        self._fd = -1
        self._unfinished: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._watchers: set[Callable[[], object]] = set()
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def age(self) -> float:
        """Return the seconds since it was begun."""
        return self._clock.monotonic() - self._began

    def write(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Add output. What cannot be stored (disk full) is lost: a log must not stop a tenant."""
        unfinished = self._unfinished[stream]
        unfinished += data
        if b"\n" not in data and len(unfinished) <= LINE_BYTES:
            return
        prefix = f"{self._now()} {stream} ".encode()
        entries = bytearray()
        *lines, rest = unfinished.split(b"\n")
        for line in lines:
            _add(entries, prefix, bytes(line), end=b"F")
        while len(rest) > LINE_BYTES:
            entries += prefix + b"P " + rest[:LINE_BYTES] + b"\n"
            del rest[:LINE_BYTES]
        self._unfinished[stream] = rest
        self._store(bytes(entries))

    def flush(self) -> None:
        """Write what has no line end yet, such as a prompt: its reader would wait for it."""
        if self.closed:
            return
        for stream, rest in self._unfinished.items():
            if rest:
                self._store(f"{self._now()} {stream} P ".encode() + bytes(rest) + b"\n")
                self._unfinished[stream] = bytearray()

    def close(self) -> None:
        """Write what has no line end yet, and let followers go."""
        if self.closed:
            return
        for stream, rest in self._unfinished.items():
            if rest:
                entries = bytearray()
                _add(entries, f"{self._now()} {stream} ".encode(), bytes(rest), end=b"F")
                self._store(bytes(entries))
        self.closed = True
        os.close(self._fd)
        self._tell()

    def watch(self, call: Callable[[], object]) -> Callable[[], None]:
        """Have `call` called, by the writer's thread, after each change; return how to stop it."""
        with self._lock:
            self._watchers.add(call)

        def stop() -> None:
            with self._lock:
                self._watchers.discard(call)

        return stop

    def _store(self, entries: bytes) -> None:
        if self._size and self._size + len(entries) > self._file_bytes:
            self._rotate()
        with contextlib.suppress(OSError):
            self._size += os.write(self._fd, entries)
        self._tell()

    def _rotate(self) -> None:
        # The next file first: without a descriptor or an inode for it, the old one goes on.
        fresh = self.path.with_name(f"{self.path.name}.next")
        try:
            opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        for number in range(self._files - 1, 0, -1):
            older = self.path if number == 1 else rotated(self.path, number - 1)
            with contextlib.suppress(OSError):
                older.replace(rotated(self.path, number))
        with contextlib.suppress(OSError):
            fresh.replace(self.path)
        os.close(self._fd)
        self._fd = opened
        self._size = 0
        self.generation += 1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _tell(self) -> None:
        with self._lock:
            watchers = list(self._watchers)
        for call in watchers:
            call()

    def _now(self) -> str:
        # Nine decimals, as the runtimes write; ours are worth six.
        return rfc3339_micro(self._clock.now()).removesuffix("Z") + "000Z"


def rotated(path: Path, number: int) -> Path:
    """Return the name of the log that was rotated `number` times."""
    return path.with_name(f"{path.name}.{number}")


def _add(entries: bytearray, prefix: bytes, line: bytes, *, end: bytes) -> None:
    for start in range(0, max(1, len(line)), LINE_BYTES):
        piece = line[start : start + LINE_BYTES]
        last = start + LINE_BYTES >= len(line)
        entries += prefix + (end if last else b"P") + b" " + piece + b"\n"
