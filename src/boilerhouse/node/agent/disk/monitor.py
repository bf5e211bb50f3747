"""When disk use is counted: often where it can matter, and cheaply in all.

each second ─► statvfs, once per file system ─► how much free space fell since each last count
                                                    └─► who can have reached its limit ─► count it

Counting walks over every file, which a second tick cannot afford for a thousand instances. But no
instance can have written more than the whole file system lost. So with `used` of its last count and
`fallen` since then, only one with used + fallen >= 95 % of its limit can be near it; all others are
skipped. What is deleted in the same second as something else is written hides it from that sum, so
everybody is counted once a minute as well, as far as there is time.

All counts of one process share an allowance of 2 % of a core: a count that took w seconds of
processor time is paid for by 49 w without one, the most endangered instance goes first, and half a
second may be saved up. One ticker for all: a machine has up to a thousand agents in one process.

While the machine's own disk is nearly full (`press`), whoever writes on is to be found within
seconds, or nobody can write any more: then counts may take a fifth of a core, for as long as free
space falls.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from boilerhouse.core.supervision import supervised
from boilerhouse.node.agent.disk.limit import DiskLimit

log = logging.getLogger(__name__)

TICK = 1.0  # seconds between two looks at the free space
SHARE = 0.02  # of a core, for all counts together
SHARE_PRESSED = 0.2  # the same while the machine's disk is nearly full
SAVED_UP = 0.5  # seconds of processor time that may be spent at once
ENDANGERED = 0.95  # of its limit


@dataclass(slots=True)
class FreeSpace:
    """A file system. `fallen` and `risen` only grow: sums of what each tick found."""

    path: Path
    bytes: int
    inodes: int
    fallen_bytes: int = 0
    fallen_inodes: int = 0
    risen: int = 0  # bytes and inodes together: whether anything was freed, not how much

    def look(self) -> None:
        """Ask the kernel, and add what has changed. Blocks, for microseconds."""
        found = os.statvfs(self.path)
        free, inodes = found.f_bfree * found.f_frsize, found.f_ffree
        self.fallen_bytes += max(0, self.bytes - free)
        self.fallen_inodes += max(0, self.inodes - inodes)
        self.risen += max(0, free - self.bytes) + max(0, inodes - self.inodes)
        self.bytes, self.inodes = free, inodes

    def expect(self, size: int, inodes: int) -> None:
        """Be told that so much was freed on purpose: what is not free at the next look, fell."""
        self.bytes += size
        self.inodes += inodes

    @classmethod
    def of(cls, path: Path) -> FreeSpace:
        found = os.statvfs(path)
        return cls(path, found.f_bfree * found.f_frsize, found.f_ffree)


class Watched(Protocol):
    """An instance whose disk use is counted (`guard.py`)."""

    @property
    def directory(self) -> Path:
        """A directory on the file system that it writes to."""
        ...

    def look(self, space: FreeSpace) -> float | None:
        """Return how close it may be to its limit, 1 at the limit; None if it need not be counted.

        Called at each tick, with the file system that `directory` is on.
        """
        ...

    def press(self, growth: DiskLimit | None) -> None:
        """Be told how much it may grow, while the machine's disk is nearly full; None: no more."""
        ...

    async def count(self, space: FreeSpace) -> float:
        """Count it and act on that; return the processor time that counting took."""
        ...


class Allowance:
    """Processor time that comes in at a rate and is saved up to a bound."""

    def __init__(self, now: float) -> None:
        self._left = SAVED_UP
        self._then = now

    def available(self, now: float, *, pressed: bool = False) -> bool:
        share = SHARE_PRESSED if pressed else SHARE
        self._left = min(SAVED_UP, self._left + (now - self._then) * share)
        self._then = now
        return self._left > 0

    def spend(self, seconds: float) -> None:
        self._left -= seconds


class DiskMonitor:
    """Counts the instances of one process, one at a time. It runs while there are any."""

    def __init__(self) -> None:
        self._watched: dict[Watched, int] = {}  # and the device that its files are on
        self._spaces: dict[int, FreeSpace] = {}  # by device
        self._allowance: Allowance | None = None
        self._running: asyncio.Task[None] | None = None
        self._growth: DiskLimit | None = None

    def press(self, growth: DiskLimit | None) -> None:
        """Have instances grow by no more than this: the machine's disk is nearly full. None: it
        is not any more."""
        self._growth = growth
        for instance in list(self._watched):
            instance.press(growth)

    def reserve_changed(self, size: int, inodes: int) -> None:
        """Be told what of a reserve was given up since the last time; less than 0: was filled.

        Whoever fills the disk takes that within a second, and free space would not show it.
        """
        for space in self._spaces.values():
            space.expect(size, inodes)

    def add(self, instance: Watched) -> None:
        """Count an instance from now on. Blocks for a moment: its file system is looked at."""
        device = instance.directory.stat().st_dev
        if device not in self._spaces:
            self._spaces[device] = FreeSpace.of(instance.directory)
        self._watched[instance] = device
        if self._growth is not None:
            instance.press(self._growth)
        if self._running is None or self._running.done():
            running = supervised("the monitor of disk use", self._run)
            self._running = asyncio.create_task(running, name="disk monitor")

    async def remove(self, instance: Watched) -> None:
        """Count it no more. A count of it that is under way comes to its end, for nobody."""
        device = self._watched.pop(instance, None)
        if device is None:
            return
        others = [one for one, on in self._watched.items() if on == device]
        if others:
            self._spaces[device].path = others[0].directory  # this one's may be gone soon
        else:
            del self._spaces[device]
        running = self._running
        if not self._watched and running is not None:
            self._running = None
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _run(self) -> None:
        if self._allowance is None:
            self._allowance = Allowance(asyncio.get_running_loop().time())
        while True:
            await asyncio.sleep(TICK)
            await self._tick(self._allowance)

    async def _tick(self, allowance: Allowance) -> None:
        time = asyncio.get_running_loop().time
        for space in self._spaces.values():
            try:
                space.look()
            except OSError as error:
                log.warning("the free space of %s is not known: %s", space.path, error)
        for instance in self._by_urgency():
            if not allowance.available(time(), pressed=self._growth is not None):
                return
            device = self._watched.get(instance)
            if device is not None:  # it may have ended while another was counted
                try:
                    allowance.spend(await instance.count(self._spaces[device]))
                except Exception:
                    # Whatever one instance's files do: the others are counted on.
                    log.exception("disk use could not be counted")

    def _by_urgency(self) -> list[Watched]:
        found = []
        for instance, device in self._watched.items():
            urgency = instance.look(self._spaces[device])
            if urgency is not None:
                found.append((urgency, id(instance), instance))
        return [instance for _, _, instance in sorted(found, reverse=True)]
