"""One process per data directory: an advisory lock on `lock`, which says whose it is.

The kernel drops the lock with the process, however it ends, so nobody ever has to clean it up.
What lies there under this name but holds no process number is somebody else's, and left alone.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from pathlib import Path

from boilerhouse.embedded.apiserver.storage.database import StoreFailed

# It is never synced, so a power loss may leave some of it, or zeros.
_CONTENT = re.compile(rb"[0-9\n\0]{0,21}")


class StoreLocked(Exception):
    """Another process works on this data directory."""


class DataLock:
    """Held from construction until `release`."""

    def __init__(self, directory: Path) -> None:
        self._fd = _open(directory / "lock")
        try:
            self._take(directory)
        except BaseException:
            os.close(self._fd)
            raise

    def _take(self, directory: Path) -> None:
        if not _holds_a_number(self._fd):
            raise StoreFailed(f"{directory / 'lock'} is not Boilerhouse's: move it away")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StoreLocked(
                f"{directory} is in use by another Boilerhouse (process {holder}):"
                " stop that one first, or choose another data directory"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def is_our_lock(path: Path) -> bool:
    """Tell whether a file is a lock that some Boilerhouse holds or has left."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _holds_a_number(fd)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    # Never through a link: what it leads to would be overwritten.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise StoreFailed(f"{path} is not Boilerhouse's: move it away") from error
        raise


def _holds_a_number(fd: int) -> bool:
    regular = stat.S_ISREG(os.fstat(fd).st_mode)
    return regular and _CONTENT.fullmatch(os.pread(fd, 64, 0)) is not None
