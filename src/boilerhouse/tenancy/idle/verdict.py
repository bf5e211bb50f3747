"""Is an instance unused? Pure and total: what is known of its activity ─► verdict.

claim, exec, logs, … ─► last activity (annotation) ─┐
became Active        ─► claimed at                 ─┼─► verdict ─► Keep    look again then
agent's /changes     ─► changes, asked at the end  ─┘              Ask     look into watchDirs
                                                                   Restamp write down "active now"
                                                                   Idle    release it

Nobody scans: a verdict says when it can change, and a timer asks for the next one. The watched
directories are looked into only at the deadline, because looking costs a walk over the files. What
they cannot tell is not idleness: an instance is never given up on the strength of an answer that
did not come or was cut short. A directory that is not there tells of no change. Nor does one that
went since the last answer take back what that told: nobody asks again before its change is as old
as the timeout.

Three clocks are involved (whoever notes activity, the instance's node, ours), and each may be
wrong or be set. A moment that lies ahead of ours by more than SKEW is no moment: a change dated so
does not count, and a note dated so is replaced by one of our own, so that a clock that was wrong
for a minute costs one timeout and not a year.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from boilerhouse.core.clock import rfc3339
from boilerhouse.node.agent.protocol import Changes
from boilerhouse.tenancy.workloads.model import Idle as IdleSpec

SKEW = timedelta(minutes=1)  # by which clocks in good order may differ
FRESH = timedelta(minutes=1)  # for which an answer without changes proves idleness
GAP = timedelta(seconds=1)  # between two questions to one instance, at least
RE_ASK = (timedelta(seconds=30), timedelta(minutes=5))  # after an answer that tells nothing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ChangesSeen(Struct, frozen=True):
    """What was learnt of the watched directories.

    Not `complete`: there may be a newer change, or there was no answer at all; `trouble` says why.
    """

    asked_at: datetime  # by our clock, before the question left
    newest: datetime | None = None
    complete: bool = False
    trouble: str = ""

    @classmethod
    def of(cls, asked_at: datetime, told: Changes) -> ChangesSeen:
        """Read an agent's answer."""
        trouble = ""
        if told.unreadable:
            trouble = "; ".join(told.unreadable)
        elif not told.complete:
            trouble = f"more than can be looked through: {told.entries} entries"
        return cls(asked_at, _moment(told.newest), told.complete, trouble)


class Keep(Struct, frozen=True):
    """It is in use, or might be; nothing but activity changes that before `until` (None: ever)."""

    until: datetime | None
    why: str


class Ask(Struct, frozen=True):
    """Only its directories can tell: ask for a change in them later than `since`."""

    directories: tuple[str, ...]
    since: datetime

    @property
    def since_ns(self) -> int:
        """The moment as agents count: nanoseconds since 1970."""
        return (self.since - _EPOCH) // timedelta(microseconds=1) * 1000


class Restamp(Struct, frozen=True):
    """Nothing says when it was last active: write down that it is now, on the Claim as seen."""

    why: str


class Idle(Struct, frozen=True):
    """It has not been used since then, for as long as the workload allows."""

    since: datetime
    why: str


Verdict = Keep | Ask | Restamp | Idle


def verdict(
    now: datetime,
    idle: IdleSpec | None,
    claimed_at: datetime | None,
    last_activity: datetime | None,
    changes: ChangesSeen | None,
) -> Verdict:
    """Judge an Active claim's instance. `changes` is the newest answer for this very instance."""
    if idle is None or not idle.timeout_seconds:
        return Keep(None, "the workload has no idle timeout")
    timeout = timedelta(seconds=idle.timeout_seconds)
    noted = newest_of(now, claimed_at, last_activity)
    if noted is None:
        return Restamp("no activity is noted that our clock could be compared with")
    if changes is not None and changes.asked_at > now:
        changes = None  # the clock was set back since
    active = noted
    if changes is not None and idle.watch_dirs:
        active = newest_of(now, noted, changes.newest) or noted
    deadline = active + timeout
    if now < deadline:
        # A file written all the time must not have us ask all the time.
        soonest = changes.asked_at + GAP if changes is not None and active > noted else deadline
        return Keep(max(deadline, soonest), f"active at {rfc3339(active)}")
    if idle.watch_dirs:
        if changes is None or changes.asked_at < deadline:
            return Ask(idle.watch_dirs, now - timeout)
        if not changes.complete:
            again = changes.asked_at + re_ask(timeout)
            if now < again:
                why = changes.trouble or "they were not looked through"
                return Keep(again, f"the watched directories tell nothing: {why}")
            return Ask(idle.watch_dirs, now - timeout)
        if now - changes.asked_at > FRESH:
            return Ask(idle.watch_dirs, now - timeout)
    return Idle(active, f"idle for {int((now - active).total_seconds())} s")


def newest_of(now: datetime, *moments: datetime | None) -> datetime | None:
    """Return the newest moment that our clock can be compared with; None if there is none.

    What lies ahead by no more than SKEW is taken as now.
    """
    known = [min(moment, now) for moment in moments if moment is not None and moment <= now + SKEW]
    return max(known, default=None)


def re_ask(timeout: timedelta) -> timedelta:
    """Return how long an instance is left alone whose directories tell nothing."""
    shortest, longest = RE_ASK
    return min(max(timeout, shortest), longest)


def _moment(nanoseconds: int | None) -> datetime | None:
    """Read an agent's number, which need not be one that a calendar has."""
    if nanoseconds is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
