"""What is told of an instance's idleness."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from boilerhouse.tenancy.idle.explain import explain
from boilerhouse.tenancy.idle.verdict import SKEW, ChangesSeen
from boilerhouse.tenancy.workloads.model import Idle as IdleSpec
from boilerhouse.tenancy.workloads.model import IdleAction

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TIMER = IdleSpec(timeout_seconds=60)
WATCH = IdleSpec(timeout_seconds=60, watch_dirs=("/workspace",))
LONG_AGO = NOW - timedelta(hours=1)


def test_a_workload_without_a_timeout() -> None:
    """It is said that nothing will happen, and the signals are told all the same."""
    told = explain(NOW, IdleSpec(), LONG_AGO, None, None)
    assert (told.state, told.deadline) == ("never", None)
    assert "stays until it is released" in told.then
    assert [(signal.name, signal.at) for signal in told.signals] == [
        ("claim", LONG_AGO),
        ("activity", None),
    ]


def test_an_active_instance() -> None:
    """Each signal has its age, and the deadline is when the newest of them is old enough."""
    told = explain(NOW, TIMER, LONG_AGO, NOW - 20 * SECOND, None)
    assert (told.state, told.deadline) == ("active", NOW + 40 * SECOND)
    assert [signal.age_seconds for signal in told.signals] == [3600, 20]
    assert told.then == (
        "unless there is activity before 2026-03-01T12:00:40Z, its files are saved and the"
        " instance goes; the next claim restores them"
    )


def test_the_action_destroy_says_what_it_loses() -> None:
    """Nothing is saved, and stored snapshots stay."""
    spec = IdleSpec(timeout_seconds=60, action=IdleAction.DESTROY)
    assert explain(NOW, spec, LONG_AGO, None, None).then == (
        "now the instance goes without saving; stored snapshots stay"
    )


def test_an_idle_instance() -> None:
    """Past the deadline, with nothing newer in the watched directories."""
    told = explain(NOW, WATCH, LONG_AGO, None, ChangesSeen(NOW, LONG_AGO, complete=True))
    assert (told.state, told.why) == ("idle", "idle for 3600 s")
    assert told.signals[-1].at == LONG_AGO
    assert told.signals[-1].detail == "newest change in /workspace"


def test_directories_that_were_not_asked() -> None:
    """Before anybody asked them, it is said that they will be."""
    told = explain(NOW, WATCH, LONG_AGO, None, None)
    assert (told.state, told.deadline) == ("due", LONG_AGO + 60 * SECOND)
    assert told.signals[-1].detail == "/workspace: asked at the deadline"
    assert told.then.startswith("if they tell of nothing newer")


def test_directories_that_tell_nothing() -> None:
    """What cannot be read is unknown, which is not idle, and why is told."""
    changes = ChangesSeen(NOW, None, complete=False, trouble="cannot be read: /workspace")
    told = explain(NOW, WATCH, LONG_AGO, None, changes)
    assert told.state == "unknown"
    assert "cannot be read: /workspace" in told.why
    assert told.then == "the instance is kept, and asked again by 2026-03-01T12:01:00Z"
    assert told.deadline == NOW + 60 * SECOND
    assert told.signals[-1].detail == "/workspace: unknown (cannot be read: /workspace)"
    empty = explain(NOW, WATCH, LONG_AGO, None, ChangesSeen(NOW, None, complete=True))
    assert empty.signals[-1].detail == "/workspace: nothing is there"


def test_a_note_from_the_future_is_told_not_to_count() -> None:
    """It has no age, and with nothing else the timeout counts from now."""
    told = explain(NOW, TIMER, None, datetime.max.replace(tzinfo=UTC), None)
    assert (told.state, told.deadline) == ("unknown", NOW + 60 * SECOND)
    assert told.then.startswith("the instance is kept, and the present noted as activity; unless")
    assert [signal.counts for signal in told.signals] == [False, False]
    assert told.signals[1].age_seconds is None
    assert "in the future" in told.signals[1].detail


def test_a_note_a_little_ahead_is_of_now() -> None:
    """Clocks in good order differ: it counts, and no age is negative."""
    told = explain(NOW, TIMER, LONG_AGO, NOW + SKEW / 2, None)
    assert (told.state, told.deadline) == ("active", NOW + 60 * SECOND)
    assert (told.signals[1].counts, told.signals[1].age_seconds) == (True, 0)


@pytest.mark.parametrize("changes", [None, ChangesSeen(NOW, trouble="no answer")])
def test_calls_in_flight_keep_it_whatever_else_is_known(changes: ChangesSeen | None) -> None:
    """There is no deadline while they last: the timeout counts from their end."""
    one = explain(NOW, WATCH, LONG_AGO, LONG_AGO, changes, in_flight=1)
    assert (one.state, one.why, one.deadline) == ("active", "1 call is in flight", None)
    assert one.then == (
        "the instance is kept until it ends; unless there is activity within 60 s after that,"
        " its files are saved and the instance goes; the next claim restores them"
    )
    two = explain(NOW, WATCH, LONG_AGO, LONG_AGO, changes, in_flight=2)
    assert two.why == "2 calls are in flight" and "kept until the last ends" in two.then
    assert explain(NOW, IdleSpec(), LONG_AGO, None, changes, in_flight=1).state == "never"


def test_a_walk_that_found_something_new_is_no_trouble() -> None:
    """It ended early because the question was answered; one that was cut short says so."""
    found = ChangesSeen(NOW, NOW - SECOND, complete=False, trouble="more than 3 entries")
    told = explain(NOW, WATCH, LONG_AGO, None, found)
    assert (told.state, told.signals[-1].detail) == ("active", "newest change in /workspace")
    cut = ChangesSeen(NOW, LONG_AGO, complete=False, trouble="more than 3 entries")
    told = explain(NOW, WATCH, LONG_AGO, None, cut)
    assert told.state == "unknown"
    assert told.signals[-1].detail.endswith("(more than 3 entries)")
