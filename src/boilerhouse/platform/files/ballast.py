"""Disk space kept back for the control plane: files that are given up when the disk is full.

    room ─► fill ─► DIR/reserve/00 … 63 (allocated)     disk full ─► give_up ─► one file less

Each file is a piece of the reserve and an inode, so giving one up makes room for a commit, an Event
or a small snapshot on a disk without either. A piece that a crash left half made is made again, and
what an earlier life left counts at once: a start on a full disk lives on it. In an orderly stop the
reserve is removed: a stopped installation keeps no space from others.

Where a file system cannot allocate (or compresses, or copies on write), a piece promises less than
it says; nothing else changes.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

PIECES = 64
SMALLEST = 64 << 10  # of a piece
LARGEST = 256 << 20  # the reserve, unless told otherwise
SHARE = 32  # the reserve is at most this fraction of the file system, unless told otherwise

MakeRoom = Callable[[], bool]  # True: there is more room than there was. Blocks.


def no_room() -> bool:
    """Say that there is nothing to give up."""
    return False


class Ballast:
    """The reserve of one data directory. Its methods block, and may be called from any thread."""

    def __init__(self, data: Path, size: int | None = None) -> None:
        """Take note of what is to be kept back: `size` bytes, 0 for nothing, None for a share."""
        self.directory = data / "reserve"
        self._wanted = size
        self._lock = threading.Lock()
        self._pieces: set[int] = set()
        self._opened = False
        self.piece = 0
        self.count = 0

    @property
    def size(self) -> int:
        return self.piece * self.count

    @property
    def missing(self) -> int:
        """How many pieces are given up, or were never made."""
        return self.count - len(self._pieces)

    def open(self) -> None:
        """Find what an earlier life has left. The data directory must be ours by then."""
        with self._lock:
            if self._opened:
                return
            self._opened = True
            disk = os.statvfs(self.directory.parent)
            size = self._wanted
            if size is None:
                size = min(LARGEST, disk.f_blocks * disk.f_frsize // SHARE)
            self.count = min(PIECES, size // SMALLEST)
            block = max(disk.f_frsize, 4096)
            self.piece = size // self.count // block * block if self.count else 0
            with contextlib.suppress(FileNotFoundError):
                for path in self.directory.iterdir():
                    number = int(path.name) if path.name.isdecimal() else self.count
                    if number < self.count and _whole(path, self.piece):
                        self._pieces.add(number)
                    else:
                        with contextlib.suppress(OSError):  # somebody's directory: let it be
                            path.unlink()

    def fill(self, room: int) -> None:
        """Make pieces as far as `room` bytes last; less if the disk says so."""
        with self._lock:
            if not self.missing or room < self.piece:
                return
            try:
                self.directory.mkdir(mode=0o700, exist_ok=True)
                for number in sorted(set(range(self.count)) - self._pieces)[: room // self.piece]:
                    self._make(number)
            except OSError as error:
                log.warning("reserve.unfilled", directory=str(self.directory), error=str(error))

    def give_up(self) -> bool:
        """Remove a piece; False if there is none left."""
        with self._lock:
            if not self._pieces:
                return False
            number = max(self._pieces)
            self._pieces.discard(number)
            self._path(number).unlink(missing_ok=True)
            return True

    def make_room(self) -> bool:
        """Remove a piece if the disk is full; whether a write that failed is worth another try."""
        self.open()
        disk = os.statvfs(self.directory.parent)
        full = disk.f_bavail * disk.f_frsize < max(self.piece, SMALLEST)
        return (full or (disk.f_files > 0 and disk.f_favail == 0)) and self.give_up()

    def remove(self) -> None:
        """Give up everything: the installation stops."""
        while self.give_up():
            pass
        with contextlib.suppress(OSError):
            self.directory.rmdir()

    def _make(self, number: int) -> None:
        path = self._path(number)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(opened, 0, self.piece)
        except OSError:
            path.unlink()  # half of one is of use to nobody
            raise
        finally:
            os.close(opened)
        self._pieces.add(number)

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:02}"


def _whole(path: Path, size: int) -> bool:
    """Whether a file is a piece of this size, and really takes it on the disk."""
    found = path.lstat()
    return found.st_size == size and found.st_blocks * 512 >= size
