"""One process per data directory: an advisory lock on `lock`, which says whose it is.

The kernel drops the lock with the process, however it ends, so nobody ever has to clean it up.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class StoreLocked(Exception):
    """Another process works on this data directory."""


class DataLock:
    """Held from construction until `release`."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise StoreLocked(
                f"{directory} is in use by another Boilerhouse (process {holder}):"
                " stop that one first, or choose another data directory"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)
