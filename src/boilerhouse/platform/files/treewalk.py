"""Looking at every entry of a directory tree, whatever its depth, its width and its names.

    root ─► Walk ─► (depth, entry, descriptor, is it a directory?) … ─► survey, counting, archives

A directory comes before what is in it. Memory does not grow with the tree: of a directory's names
only a batch is held. In the first directories on the way down the rest is read later from where
reading stopped, so these stay open. Deeper ones are closed meanwhile: they are read in the order of
names, and read again from the last name on if theirs had to be given up.

Imported by the archive's worker: keep it light.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import chain, islice
from operator import attrgetter

from boilerhouse.platform.files.descent import STAY_OPEN, Descent

BATCH = 20_000  # names of one directory that are read and sorted at once
_HELD = 200_000  # names in memory, of all the directories that can be read again
_NAMED = 30_000  # levels whose names are remembered, to say where something is

_OTHER, _FILE, _DIRECTORY = range(3)


class Name:
    """A name in a directory that was closed meanwhile: does what an `os.DirEntry` does."""

    __slots__ = ("_directory", "_kind", "name")

    def __init__(self, name: str, kind: int, directory: int) -> None:
        self.name = name
        self._kind = kind
        self._directory = directory

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return self._kind == _DIRECTORY

    def is_file(self, *, follow_symlinks: bool) -> bool:
        return self._kind == _FILE

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return os.stat(self.name, dir_fd=self._directory, follow_symlinks=follow_symlinks)


Entry = os.DirEntry[str] | Name
# How many levels below the root the directory is that it is, or that it is in; the entry, None for
# the root; descriptor of that directory; whether it is one. Good until the next is asked for.
Found = tuple[int, "Entry | None", int, bool]
# Told what cannot be entered or read: descriptor of the directory, a name in it (None: it itself),
# and why. What it does not raise is left out.
Failing = Callable[[int, "str | None", OSError], None]


class Walk:
    """Iterate over it once. `names` are those of the directories from the root to the current."""

    def __init__(self, root: int, failing: Failing) -> None:
        self.names: list[str] = []
        self._failing = failing
        self._held = 0
        self._descent = Descent(root)
        self._levels: list[Iterator[os.DirEntry[str]] | _Listing] = []

    def __iter__(self) -> Iterator[Found]:
        descent, levels = self._descent, self._levels
        try:
            levels.append(self._entries(descent.file))
            yield 0, None, descent.file, True
            while levels:
                level, here, depth = levels[-1], descent.file, len(levels) - 1
                entry: Entry | None
                while True:  # all that a walk costs for most entries
                    if isinstance(level, _Listing):
                        entry = self._next(level, here)
                    else:
                        entry = next(level, None)
                    if entry is None or _is_directory(entry):
                        break
                    yield depth, entry, here, False
                if entry is None:
                    self._leave()
                elif self._enter(entry.name):
                    yield depth + 1, entry, descent.file, True
        finally:
            descent.close()

    def close(self) -> None:
        """Close the directories of a walk that was never begun."""
        self._descent.close()

    def _next(self, level: _Listing, directory: int) -> Name | None:
        if not level.names and level.more:
            try:
                self._held += level.read(directory)
            except OSError as error:
                level.more = False
                self._failing(directory, None, error)
            if self._held > _HELD:
                self._give_up_names()
        if not level.names:
            return None
        self._held -= 1
        level.last, kind = level.names.pop()
        return Name(level.last, kind, directory)

    def _enter(self, name: str) -> bool:
        try:
            self._descent.enter(name)
        except OSError as error:
            self._failing(self._descent.file, name, error)
            return False
        if len(self._levels) <= _NAMED:
            self.names.append(name)
        level = self._levels[-1]
        if isinstance(level, _Listing) and not level.names and not level.more:
            self._levels[-1] = _DONE
        deep = len(self._levels) >= STAY_OPEN
        self._levels.append(_Listing() if deep else self._entries(self._descent.file))
        return True

    def _leave(self) -> None:
        left = self._descent.leave()
        del self._levels[-left:]
        del self.names[max(len(self._levels) - 1, 0) :]
        if left > 1:
            moved = OSError(errno.ESTALE, "it was moved while it was looked through")
            self._failing(self._descent.file, None, moved)

    def _entries(self, directory: int) -> Iterator[os.DirEntry[str]]:
        """Read one of the first directories, a batch at a time."""
        try:
            with os.scandir(directory) as found:
                while batch := sorted(islice(found, BATCH), key=_NAME, reverse=True):
                    while batch:
                        yield batch.pop()
        except OSError as error:
            self._failing(directory, None, error)

    def _give_up_names(self) -> None:
        """Forget the names of directories further up: they are read again on the way back."""
        for level in self._levels[STAY_OPEN:-1]:
            assert isinstance(level, _Listing)
            self._held -= len(level.names)
            level.more = level.more or bool(level.names)
            level.names = []


class _Listing:
    """What is still to come of a directory that may be closed meanwhile, the last name first."""

    __slots__ = ("last", "more", "names")

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []
        self.last = ""
        self.more = True

    def read(self, directory: int) -> int:
        """Read the next names in their order; returns how many."""
        with os.scandir(directory) as found:
            new = (entry for entry in found if entry.name > self.last)
            batch = sorted(islice(new, BATCH), key=_NAME)
            another = next(new, None)
            self.more = another is not None
            if another is not None:
                from heapq import nsmallest  # hardly ever needed

                batch = nsmallest(BATCH, chain(batch, [another], new), key=_NAME)
            self.names = [(entry.name, _kind(entry)) for entry in reversed(batch)]
        return len(batch)


_NAME = attrgetter("name")
_DONE = _Listing()  # in place of any that has come to its end: there may be a million
_DONE.more = False


def _is_directory(entry: Entry) -> bool:
    """Tell a directory; what cannot be told apart is looked at as what is none."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _kind(entry: os.DirEntry[str]) -> int:
    if _is_directory(entry):
        return _DIRECTORY
    try:
        return _FILE if entry.is_file(follow_symlinks=False) else _OTHER
    except OSError:
        return _OTHER
