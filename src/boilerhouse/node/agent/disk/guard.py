"""Freezes a tenant whose files take all of its disk, until there is room again.

DiskMonitor ─► count ─► at its limit ─► Hold.fill: frozen, while commands may run in it
                  └─► below 95 % of it, or the limit was raised ─► Hold.make_room: it runs on

Nothing is ever taken away: a tenant that is frozen has all its files, and three ways out (clean up
by a command, release, a larger diskGb). Commands that clean up run beside the frozen tenant. Those
that write more than 5 % of the limit on top of what was there are frozen with it until they end.

An instance that starts above its limit, since it was saved so, is left alone for a moment: it comes
up as any other, unless it writes on.

Where the file system has a quota for the instance (quota.py), its own limit is the kernel's: the
tenant gets an error for what it writes past it and runs on, and that is told, without a freeze.

While the machine's own disk is nearly full, its limit is lower: what it used when that was seen,
and a little (`press`). So whoever writes on is frozen, and everybody else goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from boilerhouse.core.clock import Clock
from boilerhouse.node.agent.disk import raisedlimit
from boilerhouse.node.agent.disk.limit import SLACK, DiskLimit, Shortage
from boilerhouse.node.agent.disk.monitor import ENDANGERED, FreeSpace
from boilerhouse.node.agent.disk.quota import DiskQuota
from boilerhouse.node.agent.disk.survey import Survey
from boilerhouse.node.agent.freezer.hold import Hold, Why
from boilerhouse.node.agent.freezer.processes import Processes
from boilerhouse.node.agent.protocol import Usage
from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

STARTING = 10.0  # seconds for which an instance that starts above its limit is left alone
RECOUNT = 60.0  # seconds after which a count is taken again, whatever the free space did
RECOUNT_FROZEN = 10.0  # the same while frozen: room may be made while others write
_FIRST = 2.0  # seconds after the start until it is counted: it has better things to do
_SOON = 1.5  # seconds between two counts of one that is frozen, at least
_BY_QUOTA = DiskLimit(1 << 62, 1 << 62)  # at which a tenant is frozen whom the kernel limits: never


class DiskGuard:
    """The disk limit of one instance. `changed` is called when it is frozen for it, or no more."""

    def __init__(
        self,
        directory: Path,
        limit: DiskLimit,
        survey: Survey,
        hold: Hold,
        processes: Processes,
        clock: Clock,
        changed: Callable[[], None],
        state: Path,
        quota: DiskQuota | None = None,
    ) -> None:
        """`state`: the agent's own directory, where a raised limit is noted. Blocks: it is read."""
        self.directory = directory
        self._state = state
        raised = raisedlimit.read(state)
        self._own_limit = limit if raised is None or raised.bytes < limit.bytes else raised
        self._quota = quota or DiskQuota(None)
        self._lifted = 0  # by so many restores, of which at most one is carried out
        self._reached = False  # whether the quota is used up
        self._growth: DiskLimit | None = None  # while the machine's disk is nearly full
        self._base: Usage | None = None  # the first count since then
        self._survey = survey
        self._hold = hold
        self._processes = processes
        self._clock = clock
        self._changed = changed
        self._short = Shortage.BYTES  # what it is frozen for, if it is
        self._counted: Usage | None = None
        self._at = 0.0  # when it was counted
        self._due = clock.monotonic() + _FIRST  # when it is to be, whatever the free space does
        self._fallen_bytes = self._fallen_inodes = self._risen = 0  # of its file system, by then
        self._marks: tuple[int, int, int] | None = None  # the same, of the count under way
        self._began = clock.monotonic()
        self._starts_with: Usage | None = None  # the first count since then
        self._most: Usage | None = None  # what commands in the frozen instance may add to
        self._halted: frozenset[int] = frozenset()  # the tenant's own processes
        self._strict = False  # whether commands are frozen as well
        self._culprits: frozenset[int] = frozenset()  # those that were
        self._acting: asyncio.Task[None] | None = None

    @property
    def full(self) -> Shortage:
        """What the tenant is frozen for, or would be if it were not halted for something else."""
        return self._short if self._hold.full else Shortage.NONE

    @property
    def writable(self) -> bool:
        """Whether there is room for another file."""
        return not (self.full or self._reached)

    @property
    def limit(self) -> DiskLimit:
        """What it may use now without being frozen."""
        own = _BY_QUOTA if self._quota.holds else self._own_limit
        if self._growth is None or self._base is None:
            return own
        return own.at_most(self._base.used, self._base.inodes, self._growth)

    def press(self, growth: DiskLimit | None) -> None:
        """Be told that the machine's disk is nearly full, and it may grow by this; None: no more.

        It is counted at once, so that what it had before is not held against it.
        """
        self._growth, self._base = growth, None
        if growth is not None:
            self._due = self._clock.monotonic()
        elif self._counted is not None:
            self._act(self._counted, self._counted)

    def begin_anew(self) -> None:
        """Be told that other files are there now, and the tenant starts on them."""
        self._began = self._clock.monotonic()
        self._due = self._began + _FIRST
        self._counted = self._starts_with = self._base = None

    async def start(self) -> None:
        """Have its limit hold, before the tenant starts; not while its files are to be restored."""
        if not self._hold.unrestored and not self._lifted:
            await self._quota.impose(self._own_limit)

    @asynccontextmanager
    async def restoring(self) -> AsyncIterator[None]:
        """Let as much be written as a restore needs: size never refuses one."""
        self._lifted += 1
        try:
            await self._quota.lift()
            yield
        finally:
            self._lifted -= 1
            await self.start()

    async def close(self) -> None:
        """Leave the tenant as it is: the next agent of this instance goes on."""
        task, self._acting = self._acting, None
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def look(self, space: FreeSpace) -> float | None:
        """Return how close it may be to its limit; None if it need not be counted now."""
        if self._acting is not None and not self._acting.done():
            return None
        now, used = self._clock.monotonic(), self._counted
        if used is None:
            return 0.0 if now >= self._due else None
        fallen_bytes = space.fallen_bytes - self._fallen_bytes
        fallen_inodes = space.fallen_inodes - self._fallen_inodes
        moved = fallen_bytes or fallen_inodes or space.risen > self._risen
        if self._hold.full:
            if now < self._due and not (moved and now >= self._at + _SOON):
                return None
            # Behind those that can still write, unless it has waited for long.
            return (now - self._at) / RECOUNT_FROZEN
        now_used = used.used + fallen_bytes, used.inodes + fallen_inodes
        share = max(self.limit.share(*now_used), self._own_limit.share(*now_used))
        if share >= ENDANGERED and (fallen_bytes or fallen_inodes):
            return share
        over = self.limit.share(*now_used) >= 1
        if over and moved and now >= self._at + _SOON:
            return share  # it runs above its limit for a moment, and may have cleaned up in it
        if over:
            self._act(used, used)  # it was not frozen yet: that it started was waited for
        return share if now >= self._due else None

    async def count(self, space: FreeSpace) -> float:
        """Count it, and freeze or thaw it if it is time; returns the processor time it took."""
        if self._marks is None:
            # Before the walk: what is written while it walks counts as fallen since.
            self._marks = space.fallen_bytes, space.fallen_inodes, space.risen
        now = self._clock.monotonic()
        self._due = now + (RECOUNT_FROZEN if self._hold.full else RECOUNT)
        try:
            source = self._quota if self._quota.holds else self._survey
            counted = await source.count()
        except (Refused, OSError) as error:
            log.warning("disk use could not be counted: %s", error)
            return 0.0
        usage = counted.usage
        if not counted.finished and not self.limit.shortage(usage.used, usage.inodes, frozen=False):
            self._due = now  # a large tree is counted in steps: go on when there is time
            return counted.seconds
        (self._fallen_bytes, self._fallen_inodes, self._risen), self._marks = self._marks, None
        self._at = now
        before, self._counted = self._counted, usage
        self._starts_with = self._starts_with or usage
        self._base = self._base or usage
        self._act(usage, before)
        return counted.seconds

    async def raise_limit(self, limit: DiskLimit) -> None:
        """Take a larger limit; a smaller one holds for instances that start after it was set."""
        if limit.bytes <= self._own_limit.bytes:
            return
        self._own_limit = limit
        await self.start()
        if self._counted is not None:
            self._act(self._counted, self._counted)
        try:
            await asyncio.to_thread(raisedlimit.note, self._state, limit)
        except OSError as error:
            # It holds all the same; only an agent after this one has to be told again.
            log.warning("the raised disk limit cannot be noted: %s", error)

    def told(self, usage: Usage) -> Usage:
        """Return a count with what became of it."""
        reached = self._quota.holds and self._own_limit.reached(
            usage.used, usage.inodes, before=self._reached
        )
        full = self.full or (Shortage.QUOTA if reached else Shortage.NONE)
        return replace(usage, limit=self._own_limit.bytes, full=full.value)

    def last(self) -> Usage | None:
        """Return the last count, with its age; None before the first."""
        if self._counted is None:
            return None
        return self.told(replace(self._counted, age=self._clock.monotonic() - self._at))

    def _act(self, usage: Usage, before: Usage | None) -> None:
        if self._acting is not None and not self._acting.done():
            return  # decided anew at the next count
        self._acting = asyncio.create_task(self._decide(usage, before), name="disk guard")

    async def _decide(self, usage: Usage, before: Usage | None) -> None:
        if self._hold.unrestored or self._hold.restoring:
            return  # these are not the tenant's files yet, or not all of them
        try:
            frozen, by_quota = self._hold.full, self._quota.holds
            self._reached = by_quota and self._own_limit.reached(
                usage.used, usage.inodes, before=self._reached
            )
            short = self.limit.shortage(usage.used, usage.inodes, frozen=frozen)
            if by_quota or not self._own_limit.shortage(usage.used, usage.inodes, frozen=frozen):
                short = short and Shortage.MACHINE
            if short and frozen:
                self._short = short
                await self._keep(usage, before)
            elif short:
                await self._freeze(short, usage)
            elif frozen:
                await self._thaw()
        except Refused as error:
            log.warning("a full instance could not be frozen, or thawed: %s", error)

    async def _freeze(self, short: Shortage, usage: Usage) -> None:
        """Freeze it, unless it has only just started and writes nothing, or does not run."""
        started = self._clock.monotonic() - self._began >= STARTING
        grown = self._starts_with is not None and self._exceeds(usage, self._starts_with)
        if not started and not grown and self._hold.why is Why.NOTHING:
            return
        if not await asyncio.to_thread(self._processes.of_tenant):
            return  # nothing runs that could write; and what is frozen cannot be started
        self._short, self._most, self._strict = short, None, False
        await self._hold.fill()
        log.warning(
            "the tenant is frozen: %d bytes of %d, %d inodes of %d",
            usage.used, self.limit.bytes, usage.inodes, self.limit.inodes,
        )  # fmt: skip
        self._tell()

    async def _keep(self, usage: Usage, before: Usage | None) -> None:
        """Look after a frozen one: is it still there, and what do commands do in it?"""
        here = {process.pid for process in await asyncio.to_thread(self._processes.of_tenant)}
        if not here:
            await self._thaw()  # killed from outside: it starts again, and is counted then
            self.begin_anew()
        elif self._strict:
            if not self._culprits & here:
                self._strict = False
                await self._hold.fill()
        elif self._most is None:
            # Counted while it stood still: until it did, it may have written much.
            self._most, self._halted = usage, frozenset(here)
        elif before is not None and _grew(usage, before) and self._exceeds(usage, self._most):
            log.warning("commands in the frozen instance write on, and are frozen with it")
            self._strict, self._culprits = True, frozenset(here) - self._halted
            await self._hold.fill(allow_exec=False)

    async def _thaw(self) -> None:
        await self._hold.make_room()
        self._strict = False
        log.info("the tenant is not frozen for its disk any more")
        self._tell()

    def _exceeds(self, usage: Usage, other: Usage) -> bool:
        """Whether a count is more than another and a bit: bytes or inodes."""
        limit = self.limit
        return (
            usage.used > other.used + limit.bytes * SLACK
            or usage.inodes > other.inodes + limit.inodes * SLACK
        )

    def _tell(self) -> None:
        self._due = self._clock.monotonic() + _SOON  # until it stood still it may have written on
        self._changed()


def _grew(usage: Usage, before: Usage) -> bool:
    return usage.used > before.used or usage.inodes > before.inodes
