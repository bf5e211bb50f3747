"""Conditions keep the time at which they came to be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from boilerhouse.core.condition import Condition, ConditionStatus, find, with_condition

THEN = datetime(2026, 1, 1, 12, 0, 0, 999, tzinfo=UTC)
NOW = THEN + timedelta(hours=1)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def test_a_new_condition_is_added_at_the_end() -> None:
    """What was stated before stays before, and untouched."""
    first = with_condition((), "A", TRUE, "Works", now=THEN)
    both = with_condition(first, "B", FALSE, "Broken", "it broke", generation=3, now=NOW)
    assert both == (
        Condition("A", TRUE, THEN.replace(microsecond=0), "Works", ""),
        Condition("B", FALSE, NOW.replace(microsecond=0), "Broken", "it broke", 3),
    )


def test_the_same_status_keeps_its_time() -> None:
    """A new reason or message for the same status is no transition."""
    first = with_condition((), "A", TRUE, "Works", now=THEN)
    again = with_condition(first, "A", TRUE, "StillWorks", "well", generation=2, now=NOW)
    assert again == (Condition("A", TRUE, THEN.replace(microsecond=0), "StillWorks", "well", 2),)


def test_another_status_is_a_transition_in_place() -> None:
    """The condition changes where it stands and takes the new time."""
    before = with_condition((), "A", TRUE, "Works", now=THEN)
    before = with_condition(before, "B", TRUE, "Works", now=THEN)
    after = with_condition(before, "A", FALSE, "Broken", now=NOW)
    assert [condition.type for condition in after] == ["A", "B"]
    assert after[0].last_transition_time == NOW.replace(microsecond=0)
    assert after[1] is before[1]


def test_stating_the_same_again_changes_nothing() -> None:
    """An equal value comes back, so that no status is written for it."""
    once = with_condition((), "A", TRUE, "Works", "m", generation=1, now=THEN)
    assert with_condition(once, "A", TRUE, "Works", "m", generation=1, now=NOW) == once


def test_find_looks_by_type() -> None:
    """A condition that was never stated is None."""
    stated = with_condition((), "A", TRUE, "Works", now=THEN)
    assert find(stated, "A") is stated[0]
    assert find(stated, "B") is None


def test_conditions_survive_the_wire() -> None:
    """What is written is read back equal, in the standard shape."""
    (stated,) = with_condition((), "A", TRUE, "Works", now=THEN)
    raw = msgspec.to_builtins(stated)
    assert raw == {
        "type": "A",
        "status": "True",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
        "reason": "Works",
        "message": "",
    }
    assert msgspec.convert(raw, Condition) == stated
