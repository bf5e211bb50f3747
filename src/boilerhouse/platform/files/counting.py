"""How much disk a directory tree takes: blocks and inodes, as the file system counts them.

    descriptor ─► Count ─► advance(), as often as it takes ─► used, inodes

A file with several names is there once, directories count too, holes do not. One entry that cannot
be looked at never ends a count: it is left out, `complete` is false, and the figures are a lower
bound. A count may be interrupted and taken up again, so that a tree of millions of files costs no
more at a time than one may have.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from boilerhouse.platform.files.treewalk import Walk

_LINKED = 1_000_000  # files with several names that are remembered; of more each name has its share
_LOOKS = 256  # entries between two looks at the time


class Linked:
    """The files with several names that were counted; may be shared by several counts."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def share(self, found: os.stat_result) -> int:
        """Return the blocks to be counted for this name: all at the first, none at the others."""
        key = found.st_dev, found.st_ino
        if key in self._seen:
            return -1
        if len(self._seen) < _LINKED:
            self._seen.add(key)
            return found.st_blocks
        return found.st_blocks // found.st_nlink


class Count:
    """What a directory and everything below it takes, so far.

    `entries` is the number of names that were looked at, without the directory itself.
    """

    def __init__(self, root: int, linked: Linked | None = None) -> None:
        self.used = 0  # bytes
        self.inodes = 0
        self.entries = 0
        self.complete = True  # nothing was left out
        self.finished = False
        self._linked = linked or Linked()
        self._walk = iter(Walk(root, self._failing))

    def advance(self, more: Callable[[], bool] | None = None) -> bool:
        """Count on while `more` says so, else to the end; tell whether the end is reached.

        `more` is asked before every 256th entry.
        """
        for _, entry, directory, is_directory in self._walk:
            try:
                if entry is None or is_directory:
                    found = os.fstat(directory)
                else:
                    found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                found = None  # it went while we looked
            except OSError as error:
                self._failing(directory, entry.name if entry else None, error)
                found = None
            if entry is not None:
                self.entries += 1
            if found is not None:
                blocks = found.st_blocks
                if found.st_nlink > 1 and not is_directory:
                    blocks = self._linked.share(found)
                if blocks >= 0:
                    self.used += blocks * 512
                    self.inodes += 1
            if more is not None and self.entries % _LOOKS == _LOOKS - 1 and not more():
                return False
        self.finished = True
        return True

    def _failing(self, _directory: int, _name: str | None, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self.complete = False
