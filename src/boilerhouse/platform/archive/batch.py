"""What is written in one go: small files, which are made with it, and pieces of large ones.

ParallelWriter ─► Batch: names here, contents in shared memory ─► write, here or by the second
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from mmap import mmap

from boilerhouse.platform.archive.reader import Parts

BYTES = 256 << 10
PARTS = 128
OPEN = 32  # descriptors that go with it

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Said by who may not give files away, or has no such user: owners are restored where possible.
NOT_OURS_TO_GIVE = (errno.EPERM, errno.EINVAL)

Owner = tuple[int, int]
# Which of the batch's descriptors; where the content starts in memory, and its length; then of a
# file that is to be made in that directory: name, mode, owner and mtime; or of a piece of that
# file: no name, and its offset in place of a time.
Part = tuple[int, int, int, bytes, int, "Owner | None", int]


class Open:
    """A file or directory that is open, and what it is to be when everything in it is written."""

    __slots__ = (
        "above", "batches", "file", "identity", "left", "mode", "mtime", "name", "place",
        "under_way",
    )  # fmt: skip

    def __init__(self, name: bytes, file: int, mode: int | None, mtime: int) -> None:
        self.name = name
        self.file = file
        self.mode = mode  # None: it has it
        self.mtime = mtime
        self.under_way: set[bytes] = set()  # names of files that are to be made in it
        self.batches = 0  # with something for it
        self.left = False
        self.identity = 0, 0  # device and inode, while it is closed in between
        self.place = b""  # its name in the overlay's own directory, until it is moved to where
        self.above = -1  # it belongs: into this directory

    def finish(self) -> None:
        """Give it its mode and time, and close it."""
        try:
            if self.mode is not None:
                os.fchmod(self.file, self.mode)
            os.utime(self.file, ns=(self.mtime, self.mtime))
        finally:
            os.close(self.file)


class Batch:
    """Parts of files, in the archive's order."""

    __slots__ = ("entries", "opened", "parts", "start", "used")

    def __init__(self, start: int) -> None:
        self.start = start  # in the shared memory
        self.used = 0
        self.opened: list[Open] = []
        self.parts: list[Part] = []
        self.entries: list[tuple[bytes, Parts]] = []  # their names, should one not be possible

    def fits(self, here: Open, size: int) -> bool:
        return (
            self.used + size <= BYTES
            and len(self.parts) < PARTS
            and (len(self.opened) < OPEN or self.opened[-1] is here)
        )

    def number(self, here: Open) -> int:
        """Return which of the batch's descriptors that is."""
        if not self.opened or self.opened[-1] is not here:
            self.opened.append(here)
            here.batches += 1
        return len(self.opened) - 1

    def descriptors(self) -> list[int]:
        return [opened.file for opened in self.opened]

    def done(self) -> None:
        """Let go of what was open for this batch alone."""
        for part in self.parts:
            self.opened[part[0]].under_way.discard(part[3])
        for opened in self.opened:
            opened.batches -= 1
            if opened.left and not opened.batches:
                opened.finish()


def write(contents: mmap, descriptors: list[int], parts: Sequence[Part]) -> tuple[int, int]:
    """Write one after the other; return how many were, and the error that ended it, or 0.

    EISDIR: a directory stands where a file is to be.
    """
    if parts and len(descriptors) <= parts[-1][0]:
        return 0, errno.EMFILE  # not all of them fit in
    done = 0
    try:
        for number, start, size, name, mode, owner, mtime in parts:
            with memoryview(contents)[start : start + size] as content:
                if name:
                    _make(name, descriptors[number], mode, owner, mtime, content)
                else:
                    _put(descriptors[number], content, mtime)
            done += 1
    except OSError as error:
        return done, error.errno or errno.EIO
    return done, 0


def _make(
    name: bytes, parent: int, mode: int, owner: Owner | None, mtime: int, content: memoryview
) -> None:
    try:
        file = os.open(name, NEW_FILE, mode, dir_fd=parent)
    except FileExistsError:  # what an earlier entry put there
        os.unlink(name, dir_fd=parent)
        file = os.open(name, NEW_FILE, mode, dir_fd=parent)
    try:
        if content:
            _put(file, content, 0)
        if owner is not None:
            give(file, owner)
        if mode & 0o1000:
            os.fchmod(file, mode)
        os.utime(file, ns=(mtime, mtime))
    finally:
        os.close(file)


def _put(file: int, content: memoryview, offset: int) -> None:
    written = os.pwrite(file, content, offset)
    while written < len(content):  # a full disk says so with the next
        written += os.pwrite(file, content[written:], offset + written)


def give(file: int, owner: Owner) -> None:
    """Make somebody a file's owner, where that is possible."""
    try:
        os.fchown(file, *owner)
    except OSError as error:
        if error.errno not in NOT_OURS_TO_GIVE:
            raise
