"""Which step keeps failing, and when it may be tried again."""

from __future__ import annotations

from datetime import timedelta

from boilerhouse.core.clock import FakeClock, new_rng
from boilerhouse.platform.loop.stepfailures import CAP, StepFailures


def test_failures_in_a_row_are_counted_and_come_later_and_later() -> None:
    """Of one step; another step starts anew."""
    failures: StepFailures[str] = StepFailures(FakeClock(), new_rng(1))
    assert failures.of("a") is None
    delays = []
    for count in range(1, 20):
        failures.note("a", "Bind", "why", refused=count == 1)
        found = failures.of("a")
        assert found is not None
        assert (found.step, found.why, found.count) == ("Bind", "why", count)
        assert found.refused == (count == 1)
        delays.append(found.due_in)
    assert delays[0] < delays[4] < delays[8]
    assert max(delays) <= CAP
    failures.note("a", "Create", "other")
    again = failures.of("a")
    assert again is not None
    assert again.count == 1


def test_a_try_becomes_due_by_the_monotonic_clock() -> None:
    """A wall clock that jumps neither hurries nor holds it."""
    clock = FakeClock()
    failures: StepFailures[str] = StepFailures(clock, new_rng(1))
    failures.note("a", "Bind", "why")
    clock.set(clock.now() + timedelta(days=1))
    waiting = failures.of("a")
    assert waiting is not None and waiting.due_in > timedelta(0)
    clock.advance(1)
    due = failures.of("a")
    assert due is not None and due.due_in <= timedelta(0)
    failures.clear("a")
    assert failures.of("a") is None
