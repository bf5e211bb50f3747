"""How much is in the overlay directories, and when something last changed there.

GET /usage   ─► Survey.usage   ─► bounded walk, remembered for a while
GET /changes ─► Survey.changes ─► bounded walk, ends early when the question is answered

A tenant may keep millions of files, or directories a million deep: a walk copes with any tree
(treewalk.py), and has a budget of entries and time. One that ran out says so (`complete` is false)
and its figure is a lower bound: what the caller makes of that is the caller's business. A count is
taken up again where it stopped. What is not there has not changed; what is there and cannot be
looked through is named, with the reason.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from boilerhouse.core.clock import Clock
from boilerhouse.node.agent.overlays import DIRECTORY, Overlays, refused
from boilerhouse.node.agent.protocol import Changes, Usage
from boilerhouse.platform.files.counting import Count, Linked
from boilerhouse.platform.files.treewalk import Walk
from boilerhouse.platform.files.unlinked import unlinked
from boilerhouse.platform.rpc.refusal import Refused

FRESH = 10.0  # seconds for which a measured usage is good enough
_NAMED = 10  # of what cannot be looked through


@dataclass(frozen=True, slots=True)
class Budget:
    """What one walk may cost."""

    entries: int = 500_000
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Counted:
    """A count. Not `finished`: there is more, and the next one goes on from here."""

    usage: Usage
    finished: bool
    seconds: float  # of processor time


class Survey:
    """Walks over the overlay directories, one at a time.

    `beside`: directories that count to the instance and are not saved; they need not be there.
    `pids`: the tenant's processes, whose open files count although they have no name.
    """

    def __init__(
        self,
        overlays: Overlays,
        clock: Clock,
        budget: Budget | None = None,
        beside: Sequence[Path] = (),
        pids: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._overlays = overlays
        self._beside = tuple(beside)
        self._pids = pids
        self._clock = clock
        self._budget = budget or Budget()
        self._walking = asyncio.Lock()
        self._counting = asyncio.Lock()
        self._counts: _Counts | None = None  # that have not come to their end
        self._measured: tuple[float, Usage] | None = None

    async def usage(self) -> Usage:
        """Return the disk use; at most FRESH seconds old. Askers at once share one walk.

        A tree that is too large for one walk is counted on when the next is due: until its end is
        reached, the answer is what was seen so far, and not complete.
        """
        async with self._counting:
            if self._measured is None or self._age() > FRESH:
                await self._measure()
            assert self._measured is not None, "it was just measured, or before"
            return replace(self._measured[1], age=self._age())

    async def count(self) -> Counted:
        """Count the disk use now, or go on with a count that has not come to its end."""
        async with self._counting:
            return await self._measure()

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

    async def _measure(self) -> Counted:
        counted = await asyncio.to_thread(self._advance)
        self._measured = (self._clock.monotonic(), counted.usage)
        return counted

    def _advance(self) -> Counted:
        began = time.thread_time()
        counts = self._counts or _Counts(self._overlays, self._beside, self._pids)
        usage = counts.advance(_Allowance(self._clock, self._budget))
        self._counts = None if counts.finished else counts
        return Counted(usage, counts.finished, time.thread_time() - began)

    def _newest(self, directories: Sequence[str], since: int | None) -> Changes:
        allowance, missed = _Allowance(self._clock, self._budget), _Missed()
        now = round(self._clock.now().timestamp() * 1e9) + 1_000_000_000
        newest: int | None = None
        complete = True
        for path in directories:
            try:
                with self._overlays.directory(path) as directory:
                    for found in _everything(directory, path, allowance, missed):
                        moment = _changed(found, now)
                        if moment is not None and (newest is None or moment > newest):
                            newest = moment
                        if since is not None and newest is not None and newest > since:
                            return Changes(newest, False, allowance.seen, tuple(missed.words))
            except _Spent:
                complete = False
                break
            except Refused as error:
                if error.code != "not-found":
                    missed.add(_words(error, path))
            except OSError as error:
                missed.add(_why(error, path))
        complete = complete and not missed.words
        return Changes(newest, complete, allowance.seen, tuple(missed.words))


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


class _Spent(Exception):
    """The budget of a walk is used up."""


class _Allowance:
    """What is left of a budget."""

    def __init__(self, clock: Clock, budget: Budget) -> None:
        self._clock = clock
        self._entries = budget.entries
        self._deadline = clock.monotonic() + budget.seconds
        self.seen = 0

    def spend(self) -> None:
        """Count one entry; raises `_Spent` if it is one too many."""
        self.seen += 1
        if self.seen % 256 == 0 and self._clock.monotonic() > self._deadline:
            raise _Spent
        if self.seen > self._entries:
            raise _Spent

    def more(self, seen: int) -> bool:
        """Whether there is something left after that many entries."""
        return seen < self._entries and self._clock.monotonic() <= self._deadline


class _Missed:
    """What could not be looked through: some of it is named, with the reason."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def add(self, why: str) -> None:
        if len(self.words) < _NAMED and why not in self.words:
            self.words.append(why)


def _everything(
    directory: int, name: str, allowance: _Allowance, missed: _Missed
) -> Iterator[os.stat_result]:
    """Yield what the kernel says of a directory and of everything below it."""

    def failing(parent: int, below: str | None, error: OSError) -> None:
        if below is not None and isinstance(error, PermissionError) and not _reached(parent, below):
            below = None  # it is the directory that is closed, and so are the others in it
        where = [name, *walk.names] if below is None else [name, *walk.names, below]
        if not isinstance(error, FileNotFoundError):
            missed.add(_why(error, _path(where)))

    walk = Walk(directory, failing)
    for _, entry, parent, is_directory in walk:
        if entry is not None:
            allowance.spend()
        try:
            if entry is None or is_directory:
                yield os.fstat(parent)
            else:
                yield entry.stat(follow_symlinks=False)
        except OSError as error:
            failing(parent, entry.name if entry is not None else None, error)


def _reached(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except PermissionError:
        return False
    except OSError:
        pass
    return True


def _path(names: list[str]) -> str:
    path = "/".join(names if len(names) <= 20 else [*names[:10], "…", *names[-10:]])
    return path if len(path) <= 300 else f"{path[:150]}…{path[-140:]}"


class _Counts:
    """The disk use of every overlay, counted one after the other, as far as the budget goes."""

    def __init__(
        self, overlays: Overlays, beside: Sequence[Path], pids: Callable[[], Iterable[int]]
    ) -> None:
        self._overlays = overlays
        self._beside = {f"beside {path}": path for path in beside}
        self._pids = pids
        self._devices: set[int] = set()
        self._linked = Linked()  # a file with several names is there once
        self._counts: dict[str, Count] = {}
        self._unreachable = False
        self.finished = False

    def advance(self, allowance: _Allowance) -> Usage:
        before = self._entries()
        for path in (*self._overlays.roots(), *self._beside):
            count = self._count(path)
            if count is None or count.finished:
                continue
            if not count.advance(lambda: allowance.more(self._entries() - before)):
                break
        else:
            self.finished = True
        sizes = dict.fromkeys(self._overlays.roots(), 0)
        sizes |= {
            path: count.used for path, count in self._counts.items() if path not in self._beside
        }
        counts = self._counts.values()
        image = any(path in self._counts for path in self._beside)
        nameless = unlinked(self._pids(), self._devices, with_roots=image)
        complete = self.finished and not self._unreachable
        return Usage(
            sum(count.used for count in counts) + sum(nameless.values()),
            sum(self._counts[path].entries for path in sizes if path in self._counts),
            complete and all(count.complete for count in counts),
            sizes,
            0.0,
            sum(count.inodes for count in counts) + len(nameless),
            sum(nameless.values()),
        )

    def _entries(self) -> int:
        return sum(count.entries for count in self._counts.values())

    def _count(self, path: str) -> Count | None:
        if path not in self._counts:
            try:
                with self._opened(path) as directory:
                    self._devices.add(os.fstat(directory).st_dev)
                    self._counts[path] = Count(directory, self._linked)
            except (Refused, OSError) as error:
                # One beside them that is not there takes no room.
                absent = isinstance(error, FileNotFoundError) and path in self._beside
                self._unreachable = self._unreachable or not absent
                return None
        return self._counts[path]

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        if path not in self._beside:
            with self._overlays.directory(path) as directory:
                yield directory
            return
        opened = os.open(self._beside[path], DIRECTORY)
        try:
            yield opened
        finally:
            os.close(opened)
