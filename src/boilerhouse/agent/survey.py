"""How much is in the overlay directories, and when something last changed there.

GET /usage   ─► Survey.usage   ─► bounded walk, remembered for a while
GET /changes ─► Survey.changes ─► bounded walk, ends early when the question is answered

A tenant may keep millions of files, or directories a thousand deep, so a walk has a budget of
entries, time and depth. One that ran out says so (`complete` is false) and its figure is a lower
bound: what the caller makes of that is the caller's business. What is not there has not changed;
what is there and cannot be looked through is named, with the reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from boilerhouse.agent.overlays import DIRECTORY, Overlays, refused
from boilerhouse.agent.protocol import Changes, Refused, Usage
from boilerhouse.core.clock import Clock

FRESH = 10.0  # seconds for which a measured usage is good enough
_DEEPEST = 128  # one open descriptor per level
_NAMED = 10  # of what cannot be looked through


@dataclass(frozen=True, slots=True)
class Budget:
    """What one walk may cost."""

    entries: int = 500_000
    seconds: float = 5.0


class Survey:
    """Walks over the overlay directories, one at a time."""

    def __init__(self, overlays: Overlays, clock: Clock, budget: Budget | None = None) -> None:
        self._overlays = overlays
        self._clock = clock
        self._budget = budget or Budget()
        self._walking = asyncio.Lock()
        self._measured: tuple[float, Usage] | None = None

    async def usage(self) -> Usage:
        """Return the disk use; at most FRESH seconds old. Askers at once share one walk."""
        async with self._walking:
            if self._measured is None or self._age() > FRESH:
                measured = await asyncio.to_thread(self._measure)
                self._measured = (self._clock.monotonic(), measured)
            found = self._measured[1]
            return Usage(found.used, found.entries, found.complete, found.directories, self._age())

    async def changes(self, directories: Sequence[str], since: int | None) -> Changes:
        """Return the newest change at or below these directories.

        With `since` (nanoseconds), any later change ends the walk: that one is returned.
        """
        async with self._walking:
            return await asyncio.to_thread(
                self._newest, directories or self._overlays.roots(), since
            )

    def _age(self) -> float:
        assert self._measured is not None
        return self._clock.monotonic() - self._measured[0]

    def _measure(self) -> Usage:
        walk = _Walk(self._clock, self._budget)
        linked: set[tuple[int, int]] = set()  # a file with several names is there once
        sizes: dict[str, int] = {}
        for path in self._overlays.roots():
            sizes[path] = 0
            with self._overlays.directory(path) as directory:
                for found in walk.below(directory, path):
                    if found.st_nlink > 1 and found.st_mode & 0o170000 != 0o040000:
                        if (found.st_dev, found.st_ino) in linked:
                            continue
                        linked.add((found.st_dev, found.st_ino))
                    sizes[path] += found.st_blocks * 512
        return Usage(sum(sizes.values()), walk.seen, walk.complete, sizes, 0.0)

    def _newest(self, directories: Sequence[str], since: int | None) -> Changes:
        walk = _Walk(self._clock, self._budget)
        now = round(self._clock.now().timestamp() * 1e9) + 1_000_000_000
        newest: int | None = None
        for path in directories:
            try:
                with self._overlays.directory(path) as directory:
                    for found in walk.below(directory, path):
                        moment = _changed(found, now)
                        if moment is not None and (newest is None or moment > newest):
                            newest = moment
                        if since is not None and newest is not None and newest > since:
                            return Changes(newest, False, walk.seen, tuple(walk.unreadable))
            except Refused as error:
                if error.code != "not-found":
                    walk.miss(_words(error, path))
            except OSError as error:
                walk.miss(_why(error, path))
        return Changes(newest, walk.complete, walk.seen, tuple(walk.unreadable))


def _changed(found: os.stat_result, now: int) -> int | None:
    """When it last changed. ctime is the kernel's own: nobody can set it, neither back nor ahead.

    Only where the clock itself was set back can it lie in the future; then mtime may still tell.
    """
    for moment in (found.st_ctime_ns, found.st_mtime_ns):
        if moment <= now:
            return moment
    return None


def _why(error: OSError, path: str) -> str:
    """Say why something could not be looked through."""
    try:
        return _words(refused(error, path), path)
    except OSError:
        return f"{path!a} cannot be looked through: {error.strerror or error}"


def _words(error: Refused, path: str) -> str:
    if error.code in ("not-a-directory", "symlink"):  # the kernel hardly tells them apart
        return f"{path!a} is or leads through what is no directory; links are not followed"
    return str(error)


@dataclass(frozen=True, slots=True)
class _Level:
    """An open directory, and the names in it that are still to be entered."""

    directory: int
    path: str
    names: list[str] = field(default_factory=list)


class _Walk:
    """Looks at everything below some directories, within one budget for all of them.

    `unreadable`: some of what could not be looked through, and why.
    """

    def __init__(self, clock: Clock, budget: Budget) -> None:
        self._clock = clock
        self._entries = budget.entries
        self._deadline = clock.monotonic() + budget.seconds
        self.seen = 0
        self.complete = True
        self.unreadable: list[str] = []

    def miss(self, why: str) -> None:
        """Note that something could not be looked through."""
        self.complete = False
        if len(self.unreadable) < _NAMED:
            self.unreadable.append(why)

    def below(self, directory: int, name: str) -> Iterator[os.stat_result]:
        """Yield the directory itself, then everything under it, links never followed."""
        yield os.fstat(directory)
        # From the top to where we are.
        path: list[_Level] = []
        try:
            path.append(_Level(os.dup(directory), name))
            yield from self._level(path[-1])
            while path:
                here = path[-1]
                if not here.names:
                    path.pop()
                    os.close(here.directory)
                elif (below := self._enter(here, here.names.pop(), len(path))) is not None:
                    path.append(below)
                    yield from self._level(below)
        finally:
            for level in path:
                os.close(level.directory)

    def _level(self, level: _Level) -> Iterator[os.stat_result]:
        with os.scandir(level.directory) as entries:
            for entry in entries:
                self.seen += 1
                if self._spent():
                    self.complete = False
                    return
                try:
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        level.names.append(entry.name)
                except FileNotFoundError:
                    continue  # it went while we looked
                except PermissionError as error:
                    self.miss(_why(error, level.path))
                    return  # and so with the others

    def _enter(self, parent: _Level, name: str, depth: int) -> _Level | None:
        if self._spent() or depth >= _DEEPEST:
            self.complete = False
            return None
        path = f"{parent.path}/{name}"
        try:
            return _Level(os.open(name, DIRECTORY, dir_fd=parent.directory), path)
        except OSError as error:
            # Gone, or exchanged for a link, or not ours to read: only the first is harmless.
            self.miss(_why(error, path))
            return None

    def _spent(self) -> bool:
        return self.seen > self._entries or (
            self.seen % 256 == 0 and self._clock.monotonic() > self._deadline
        )
