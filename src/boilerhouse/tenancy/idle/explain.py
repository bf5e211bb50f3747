"""Why an instance counts as used or unused, in words and moments. Pure.

what verdict.py judges by ─► explain ─► signals with their ages, the deadline, what happens then

It asks the very function that decides, so that what is told is what will be done.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from boilerhouse.core.clock import rfc3339
from boilerhouse.tenancy.idle.verdict import (
    Ask,
    ChangesSeen,
    Keep,
    Restamp,
    Verdict,
    newest_of,
    verdict,
)
from boilerhouse.tenancy.workloads.model import Idle as IdleSpec
from boilerhouse.tenancy.workloads.model import IdleAction

# What each action does, for people.
THEN = {
    IdleAction.HIBERNATE: "its files are saved and the instance goes; the next claim restores them",
    IdleAction.DESTROY: "the instance goes without saving; stored snapshots stay",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One sign of activity: when it was last seen, and whether it counts.

    What lies ahead of the clock has no age, or none to speak of: a little ahead is now.
    """

    name: str
    counts: bool
    at: datetime | None = None
    age_seconds: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`state`: never, active, due, unknown or idle. `deadline`: when that may next change."""

    state: str
    why: str
    then: str
    signals: tuple[Signal, ...]
    deadline: datetime | None = None


def explain(
    now: datetime,
    idle: IdleSpec,
    claimed_at: datetime | None,
    last_activity: datetime | None,
    changes: ChangesSeen | None,
    in_flight: int = 0,
) -> Explanation:
    """Explain an Active claim; arguments as `verdict` takes them, and calls that keep it active."""
    found = verdict(now, idle, claimed_at, last_activity, changes)
    signals = [
        _signal("claim", now, claimed_at, "when it became Active"),
        _signal("activity", now, last_activity, "last claim, command, log or request"),
    ]
    if idle.watch_dirs:
        signals.append(_watched(now, idle, changes))
    noted = newest_of(now, claimed_at, last_activity)
    if in_flight and idle.timeout_seconds:
        state, why, then, deadline = _busy(idle, in_flight)
    else:
        state, why, then, deadline = _judged(now, idle, noted, found)
    return Explanation(state, why, then, tuple(signals), deadline)


_Told = tuple[str, str, str, datetime | None]  # state, why, then, deadline


def _busy(idle: IdleSpec, in_flight: int) -> _Told:
    """Tell of calls under way: each notes activity as long as it lasts, and at its end."""
    calls, last = ("1 call is", "it") if in_flight == 1 else (f"{in_flight} calls are", "the last")
    then = (
        f"the instance is kept until {last} ends; unless there is activity within"
        f" {idle.timeout_seconds} s after that, {THEN[idle.action]}"
    )
    return "active", f"{calls} in flight", then, None


def _judged(now: datetime, idle: IdleSpec, noted: datetime | None, found: Verdict) -> _Told:
    timeout = timedelta(seconds=idle.timeout_seconds)
    what = THEN[idle.action]
    match found:
        case Keep(until, why):
            if until is None:
                return "never", why, "nothing: the instance stays until it is released", None
            if why.startswith("active"):
                return "active", why, _unless(until, what), until
            then = f"the instance is kept, and asked again by {rfc3339(until)}"
            return "unknown", why, then, until
        case Ask():
            why = "only the watched directories can tell, and they are about to be asked"
            due = None if noted is None else noted + timeout
            return "due", why, f"if they tell of nothing newer, {what}", due
        case Restamp(why):
            until = now + timeout
            then = (
                f"the instance is kept, and the present noted as activity; {_unless(until, what)}"
            )
            return "unknown", why, then, until
    return "idle", found.why, f"now {what}", found.since + timeout


def _unless(until: datetime, what: str) -> str:
    return f"unless there is activity before {rfc3339(until)}, {what}"


def _signal(name: str, now: datetime, at: datetime | None, detail: str) -> Signal:
    if at is None:
        return Signal(name, counts=False, detail=f"{detail}: not noted")
    if newest_of(now, at) is None:
        detail = f"{detail}: it lies in the future, ahead of the clock, and does not count"
        return Signal(name, counts=False, at=at, detail=detail)
    return Signal(name, True, at, max((now - at).total_seconds(), 0.0), detail)


def _watched(now: datetime, idle: IdleSpec, changes: ChangesSeen | None) -> Signal:
    where = ", ".join(idle.watch_dirs)
    if changes is None:
        return Signal("watchDirs", counts=False, detail=f"{where}: asked at the deadline")
    trouble = f" ({changes.trouble})" if changes.trouble else ""
    recent = now - timedelta(seconds=idle.timeout_seconds)
    if changes.newest is not None and changes.newest > recent:
        trouble = ""  # the walk ended because it had found what it looked for
    if changes.newest is None:
        detail = f"{where}: {'nothing is there' if changes.complete else 'unknown'}{trouble}"
        return Signal("watchDirs", counts=False, detail=detail)
    signal = _signal("watchDirs", now, changes.newest, f"newest change in {where}")
    return Signal(
        signal.name, signal.counts, signal.at, signal.age_seconds, signal.detail + trouble
    )
