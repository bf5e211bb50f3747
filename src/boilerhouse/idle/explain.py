"""Why an instance counts as used or unused, in words and moments. Pure.

what verdict.py judges by ─► explain ─► signals with their ages, the deadline, what happens then

It asks the very function that decides, so that what is told is what will be done.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from boilerhouse.core.clock import rfc3339
from boilerhouse.idle.verdict import (
    Ask,
    ChangesSeen,
    Idle,
    Keep,
    Restamp,
    Verdict,
    newest_of,
    verdict,
)
from boilerhouse.workloads.model import Idle as IdleSpec
from boilerhouse.workloads.model import IdleAction

# What each action does, for people.
THEN = {
    IdleAction.HIBERNATE: "its files are saved and the instance goes; the next claim restores them",
    IdleAction.DESTROY: "the instance goes without saving; stored snapshots stay",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One sign of activity: when it was last seen, and whether it counts."""

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
) -> Explanation:
    """Explain an Active claim; arguments as `verdict` takes them."""
    found = verdict(now, idle, claimed_at, last_activity, changes)
    signals = [
        _signal("claim", now, claimed_at, "when it became Active"),
        _signal("activity", now, last_activity, "last claim, command, log or request"),
    ]
    if idle.watch_dirs:
        signals.append(_watched(now, idle, changes))
    state, why, deadline = _state(now, idle, newest_of(now, claimed_at, last_activity), found)
    return Explanation(state, why, _then(idle, found, deadline), tuple(signals), deadline)


def _state(
    now: datetime, idle: IdleSpec, noted: datetime | None, found: Verdict
) -> tuple[str, str, datetime | None]:
    timeout = timedelta(seconds=idle.timeout_seconds)
    match found:
        case Keep(None, why):
            return "never", why, None
        case Keep(until, why) if why.startswith("active"):
            return "active", why, until
        case Keep(until, why):
            return "unknown", why, until
        case Ask():
            why = "only the watched directories can tell, and they are about to be asked"
            return "due", why, None if noted is None else noted + timeout
        case Restamp(why):
            return "unknown", why, now + timeout
    return "idle", found.why, found.since + timeout


def _then(idle: IdleSpec, found: Verdict, deadline: datetime | None) -> str:
    if isinstance(found, Keep) and found.until is None:
        return "nothing: the instance stays until it is released"
    what = THEN[idle.action]
    if isinstance(found, Idle):
        return f"now {what}"
    if deadline is None or isinstance(found, Ask):
        return f"if they tell of nothing newer, {what}"
    return f"unless there is activity before {rfc3339(deadline)}, {what}"


def _signal(name: str, now: datetime, at: datetime | None, detail: str) -> Signal:
    if at is None:
        return Signal(name, counts=False, detail=f"{detail}: not noted")
    counts = newest_of(now, at) is not None
    detail = detail if counts else f"{detail}: it lies ahead of the clock and does not count"
    return Signal(name, counts, at, (now - at).total_seconds(), detail)


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
