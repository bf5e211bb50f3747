"""Going down a directory tree of any depth with a bounded number of open descriptors.

    root ─► Descent: enter(name), leave() ─► treewalk.py, archive/tally.py, archive/tree.py

A tenant makes directories a million deep in seconds. So nothing here recurses, no path name is
given to the kernel, and of the directories on the way down only the first and the last few are
open. The way back up is `..`, checked by device and inode: a directory that was moved meanwhile
leads elsewhere, and is not followed. Links are never followed either.

Imported by the archive's worker: keep it light.
"""

from __future__ import annotations

import os
from array import array
from collections import deque

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
STAY_OPEN = 32  # directories that stay open, from the root on
_LAST = 32  # directories that are open, up to the current one


class Descent:
    """The directories from a root to the current one. The root is duplicated, and closed."""

    def __init__(self, root: int) -> None:
        self._first = [os.dup(root)]
        self._closed = array("Q")  # device and inode of each directory that is not open
        self._last: deque[int] = deque()
        self.file = self._first[0]  # of the current directory

    @property
    def depth(self) -> int:
        """How many directories lie above the current one, up to the root."""
        return len(self._first) + len(self._closed) // 2 + len(self._last) - 1

    def enter(self, name: str | bytes) -> None:
        """Go down into a directory; raises what the kernel says."""
        self.push(os.open(name, OPEN_DIRECTORY, dir_fd=self.file))

    def push(self, file: int) -> None:
        """Go down into a directory in this one that was opened already; it is closed here."""
        self.file = file
        if len(self._first) < STAY_OPEN:
            self._first.append(file)
            return
        self._last.append(file)
        if len(self._last) > _LAST:
            oldest = self._last.popleft()
            found = os.fstat(oldest)
            self._closed.extend((found.st_dev, found.st_ino))
            os.close(oldest)

    def leave(self) -> int:
        """Go up; returns how many levels: more than one if the directory above was moved away.

        Then the current directory is the last of those that were open all the time.
        """
        if not self._last:
            os.close(self._first.pop())
            self.file = self._first[-1] if self._first else -1
            return 1
        here, levels = self._last.pop(), 1
        if not self._last and self._closed:
            up = self._above(here)
            if up >= 0:
                del self._closed[-2:]
                self._last.append(up)
            else:
                levels += len(self._closed) // 2
                del self._closed[:]
        os.close(here)
        self.file = self._last[-1] if self._last else self._first[-1]
        return levels

    def _above(self, here: int) -> int:
        """Open the directory above by `..`; -1 if it is not the one that we came from."""
        try:
            up = os.open("..", OPEN_DIRECTORY, dir_fd=here)
        except OSError:
            return -1
        found = os.fstat(up)
        if (found.st_dev, found.st_ino) == tuple(self._closed[-2:]):
            return up
        os.close(up)
        return -1

    def close(self) -> None:
        """Close whatever is open."""
        while self._first or self._last:
            os.close((self._last or self._first).pop())
        del self._closed[:]
