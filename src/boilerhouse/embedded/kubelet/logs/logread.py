"""Reading a container's log back: the last lines, since a moment, and on as it grows.

0.log.2 ─► 0.log.1 ─► 0.log ─► entries ─► tail, since ─► bytes as the container printed them
                         ▲
                         └─ LogFile tells of news while the container lives
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Literal

from boilerhouse.core.clock import parse_time
from boilerhouse.embedded.kubelet.logs.log import FILES, LogFile, rotated

_BLOCK = 256 * 1024
_PREFIX = 64  # bytes that hold an entry's time, stream and flag


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What `pods/log` asks for; times are compared entry by entry."""

    tail: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


async def read_log(
    path: Path, query: LogQuery, live: LogFile | None = None
) -> AsyncIterator[bytes]:
    """Yield the log; with `live`, its writer, go on until the container has ended.

    A follower so slow that a file is rotated away before it is read misses that file.
    """
    left = query.limit_bytes
    async for block in _blocks(path, query, live):
        if left is not None:
            block = block[:left]
            left -= len(block)
        if block:
            yield block
        if left == 0:
            return


async def _blocks(path: Path, query: LogQuery, live: LogFile | None) -> AsyncIterator[bytes]:
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = live.watch(lambda: loop.call_soon_threadsafe(news.set)) if live is not None else None
    generation = live.generation if live is not None else 0
    files = await asyncio.to_thread(_open_all, path)
    try:
        skip = await asyncio.to_thread(_tail_positions, files, query.tail)
        current = files[-1] if files else -1
        for fd, start in zip(files, skip, strict=True):
            if start is None:
                continue
            os.lseek(fd, start, os.SEEK_SET)
            reader = _Reader(fd, query)
            while block := await asyncio.to_thread(reader.block):
                yield block
            if fd == current:
                break
        if live is None or not files:
            return
        while True:
            news.clear()
            # The order matters: what is seen closed or rotated has all its bytes in the file.
            closed, newest = live.closed, live.generation
            while (block := await asyncio.to_thread(reader.block)) is not None:
                yield block
            if newest != generation:
                generation = newest
                fresh = await asyncio.to_thread(_open_all, path)
                files += fresh
                reader = _Reader(fresh[-1], query)
            elif closed:
                return
            else:
                await news.wait()
    finally:
        if stop is not None:
            stop()
        for fd in files:
            os.close(fd)


class _Reader:
    """Turns a file into blocks of output, at most so much at a time."""

    def __init__(self, fd: int, query: LogQuery) -> None:
        self._fd = fd
        self._query = query
        self._rest = b""
        self._in_line = False  # what was shown last did not end its line

    def block(self) -> bytes | None:
        """Return the output of the next entries, None at the end of what is there."""
        while data := os.read(self._fd, _BLOCK):
            *lines, self._rest = (self._rest + data).split(b"\n")
            shown = b"".join([self._shown(line) for line in lines])
            if shown:
                return shown
        return None

    def _shown(self, entry: bytes) -> bytes:
        moment, _, rest = entry.partition(b" ")
        _, _, rest = rest.partition(b" ")
        flag, _, content = rest.partition(b" ")
        if flag not in (b"F", b"P"):
            return b""  # torn by a crash
        if self._query.since is not None:
            try:
                if parse_time(moment.decode("ascii")) < self._query.since:
                    return b""
            except ValueError:
                return b""
        if flag == b"F":
            content += b"\n"
        if self._query.timestamps and not self._in_line:
            content = moment + b" " + content
        self._in_line = flag == b"P"
        return content


class Past:
    """What a log holds at one moment, piece by piece; nothing may be written meanwhile.

    Opened at once and read later: the writer goes on, and may rotate files away.
    """

    def __init__(self, path: Path) -> None:
        self._files = [(fd, os.fstat(fd).st_size) for fd in _open_all(path)]
        self._pieces = self._read()
        # Not by a method: a thread may be reading while the session is given up.
        weakref.finalize(self, _close_all, [fd for fd, _ in self._files])

    def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        """Return the next piece of output with its stream, None at the end. Blocks."""
        return next(self._pieces, None)

    def _read(self) -> Iterator[tuple[Literal["stdout", "stderr"], bytes]]:
        for fd, size in self._files:
            position, rest = 0, b""
            while position < size:
                data = os.pread(fd, min(_BLOCK, size - position), position)
                if not data:
                    break  # cut short by somebody else
                position += len(data)
                *entries, rest = (rest + data).split(b"\n")
                for name, group in groupby(
                    filter(None, map(_parts, entries)), lambda part: part[0]
                ):
                    yield name, b"".join([content for _, content in group])


def _parts(entry: bytes) -> tuple[Literal["stdout", "stderr"], bytes] | None:
    _, name, flag, content = [*entry.split(b" ", 3), b"", b"", b""][:4]
    if name not in (b"stdout", b"stderr") or flag not in (b"F", b"P"):
        return None  # torn by a crash
    return "stdout" if name == b"stdout" else "stderr", content + (b"\n" if flag == b"F" else b"")


def _close_all(files: list[int]) -> None:
    for fd in files:
        os.close(fd)


def _open_all(path: Path) -> list[int]:
    """Open the log and its rotated elders, oldest first."""
    found = []
    for name in [rotated(path, number) for number in range(FILES - 1, 0, -1)] + [path]:
        try:
            found.append(os.open(name, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
    return found


def _tail_positions(files: list[int], tail: int | None) -> list[int | None]:
    """Return where to begin in each file so that `tail` lines remain; None = leave it out."""
    if tail is None:
        return [0] * len(files)
    positions: list[int | None] = []
    for fd in reversed(files):
        if tail <= 0 and positions:
            positions.append(None)
            continue
        start, found = _last_lines(fd, tail)
        tail -= found
        positions.append(start)
    return positions[::-1]


def _last_lines(fd: int, wanted: int) -> tuple[int, int]:
    """Return where the last `wanted` lines of a file begin, and how many there are.

    A line is one entry, or the pieces of a long or slow one up to the entry that ends it.
    """
    found = 0
    last = True
    for start, end in _entries_backwards(fd, os.fstat(fd).st_size):
        if last or _ends_line(fd, start):
            if found == wanted:
                return end, wanted
            found += 1
        last = False
    return 0, found


def _ends_line(fd: int, start: int) -> bool:
    _, _, rest = os.pread(fd, _PREFIX, start).partition(b" ")
    return rest.partition(b" ")[2][:1] != b"P"


def _entries_backwards(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where each entry begins and ends, newest first; a torn last one is left out."""
    end: int | None = None
    for position, block in _backwards(fd, size):
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            after = position + at + 1
            if end is not None:
                yield after, end
            end = after
    if end is not None:
        yield 0, end


def _backwards(fd: int, end: int) -> Iterator[tuple[int, bytes]]:
    while end > 0:
        start = max(0, end - _BLOCK)
        yield start, os.pread(fd, end - start, start)
        end = start
