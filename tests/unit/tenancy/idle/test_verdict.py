"""When an instance counts as unused, branch by branch and as laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.core.clock import rfc3339
from boilerhouse.node.agent.protocol import Changes
from boilerhouse.tenancy.idle.verdict import (
    FRESH,
    GAP,
    RE_ASK,
    SKEW,
    Ask,
    ChangesSeen,
    Idle,
    Keep,
    Restamp,
    Verdict,
    newest_of,
    re_ask,
    verdict,
)
from boilerhouse.tenancy.workloads.model import Idle as IdleSpec

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
TIMER = IdleSpec(timeout_seconds=60)
WATCH = IdleSpec(timeout_seconds=60, watch_dirs=("/workspace",))
LONG_AGO = NOW - timedelta(hours=1)

timeouts = st.integers(1, 31_536_000)
DECADES = timedelta(days=9000)
around = st.timedeltas(-DECADES, DECADES).map(lambda by: NOW + by)  # clocks may be anywhere
moments = st.none() | around | st.just(datetime.max.replace(tzinfo=UTC))
answers = st.none() | st.builds(ChangesSeen, around, moments, st.booleans(), st.just(""))
specs = st.builds(
    IdleSpec,
    timeout_seconds=timeouts,
    watch_dirs=st.sampled_from([(), ("/workspace",)]),
)


def test_a_workload_without_a_timeout_keeps_its_instances() -> None:
    """No idle settings, or a timeout of 0: kept for ever, whatever was noted."""
    for spec in (None, IdleSpec()):
        assert verdict(NOW, spec, LONG_AGO, None, None) == Keep(
            None, "the workload has no idle timeout"
        )


def test_kept_until_the_timeout_after_the_newest_activity() -> None:
    """The deadline counts from the last activity, or from the claim if that is newer."""
    for claimed, active in (
        (LONG_AGO, NOW - 20 * SECOND),
        (NOW - 20 * SECOND, LONG_AGO),
        (NOW - 20 * SECOND, None),
        (None, NOW - 20 * SECOND),
    ):
        kept = verdict(NOW, TIMER, claimed, active, None)
        assert kept == Keep(NOW + 40 * SECOND, "active at 2026-03-01T11:59:40Z")


def test_idle_at_the_deadline() -> None:
    """At the deadline itself it is idle, a microsecond before it is not."""
    active = NOW - MINUTE
    assert verdict(NOW, TIMER, LONG_AGO, active, None) == Idle(active, "idle for 60 s")
    early = NOW - timedelta(microseconds=1)
    assert verdict(early, TIMER, LONG_AGO, active, None) == Keep(
        NOW, "active at 2026-03-01T11:59:00Z"
    )


def test_watched_directories_are_asked_at_the_deadline_only() -> None:
    """Before the deadline nobody looks; at it, for changes that would move it."""
    active = NOW - MINUTE
    assert isinstance(verdict(NOW - SECOND, WATCH, LONG_AGO, active, None), Keep)
    asked = verdict(NOW, WATCH, LONG_AGO, active, None)
    assert asked == Ask(("/workspace",), NOW - MINUTE)


def test_an_answer_without_changes_is_idleness() -> None:
    """Everything was looked at and nothing is newer: idle since the last activity."""
    changes = ChangesSeen(NOW, LONG_AGO, complete=True)
    later = NOW + SECOND
    assert verdict(later, WATCH, LONG_AGO, NOW - MINUTE, changes) == Idle(
        NOW - MINUTE, "idle for 61 s"
    )


def test_a_change_moves_the_deadline() -> None:
    """A file changed half a minute ago is activity of half a minute ago, also if the walk ended."""
    for complete in (True, False):
        changes = ChangesSeen(NOW, NOW - 30 * SECOND, complete)
        kept = verdict(NOW, WATCH, LONG_AGO, LONG_AGO, changes)
        assert kept == Keep(NOW + 30 * SECOND, "active at 2026-03-01T11:59:30Z")


def test_after_a_moved_deadline_it_is_asked_again() -> None:
    """The old answer says nothing about the time after it."""
    changes = ChangesSeen(NOW, NOW - 30 * SECOND, complete=True)
    now = NOW + 30 * SECOND
    assert verdict(now, WATCH, LONG_AGO, LONG_AGO, changes) == Ask(("/workspace",), now - MINUTE)


def test_a_file_that_is_written_all_the_time_is_asked_about_once_a_second_at_most() -> None:
    """However short the timeout: two questions are a second apart."""
    spec = IdleSpec(timeout_seconds=1, watch_dirs=("/workspace",))
    changes = ChangesSeen(NOW, NOW - 0.9 * SECOND, complete=False)
    kept = verdict(NOW, spec, LONG_AGO, LONG_AGO, changes)
    assert isinstance(kept, Keep)
    assert kept.until == NOW + GAP


@pytest.mark.parametrize("trouble", ["", "cannot be read: /workspace"])
def test_unreadable_directories_are_not_idleness(trouble: str) -> None:
    """What cannot be looked at keeps the instance; it is asked again, later and not at once."""
    changes = ChangesSeen(NOW, None, complete=False, trouble=trouble)
    kept = verdict(NOW + SECOND, WATCH, LONG_AGO, LONG_AGO, changes)
    assert isinstance(kept, Keep)
    assert kept.until == NOW + MINUTE
    assert (trouble or "not looked through") in kept.why
    assert isinstance(verdict(NOW + MINUTE, WATCH, LONG_AGO, LONG_AGO, changes), Ask)


def test_activity_counts_even_where_directories_cannot_be_read() -> None:
    """A touch after an answer that told nothing begins a new timeout."""
    changes = ChangesSeen(NOW - SECOND, None, complete=False)
    kept = verdict(NOW, WATCH, LONG_AGO, NOW, changes)
    assert isinstance(kept, Keep)
    assert kept.until == NOW + MINUTE


def test_an_old_answer_proves_nothing() -> None:
    """Whoever comes late with an answer asks again: there may have been changes since."""
    changes = ChangesSeen(NOW, LONG_AGO, complete=True)
    assert isinstance(verdict(NOW + FRESH, WATCH, LONG_AGO, LONG_AGO, changes), Idle)
    assert isinstance(verdict(NOW + FRESH + SECOND, WATCH, LONG_AGO, LONG_AGO, changes), Ask)


def test_activity_after_the_question_outweighs_the_answer() -> None:
    """Activity noted later than the deadline that was judged begins a new one."""
    changes = ChangesSeen(NOW, LONG_AGO, complete=True)
    assert isinstance(verdict(NOW + SECOND, WATCH, LONG_AGO, NOW + SECOND, changes), Keep)


def test_changes_of_a_workload_that_watches_nothing_do_not_count() -> None:
    """Directories that were watched once keep nobody once the workload stopped watching."""
    changes = ChangesSeen(NOW, NOW, complete=True)
    assert isinstance(verdict(NOW, TIMER, LONG_AGO, LONG_AGO, changes), Idle)


def test_without_any_usable_note_one_is_made() -> None:
    """Nothing noted, or only moments far ahead: not idle, and not for ever either."""
    for claimed, active in (
        (None, None),
        (NOW + timedelta(days=300), None),
        (None, NOW + 2 * SKEW),
    ):
        assert isinstance(verdict(NOW, TIMER, claimed, active, None), Restamp)


def test_a_note_from_the_future_beside_a_good_one_is_left_aside() -> None:
    """Claimed while the clock was a year ahead, active since it is right: the activity counts."""
    claimed = NOW + timedelta(days=365)
    assert verdict(NOW, TIMER, claimed, NOW - MINUTE, None) == Idle(NOW - MINUTE, "idle for 60 s")


def test_clocks_that_differ_a_little_are_in_good_order() -> None:
    """A note slightly ahead of our clock is activity now, and its deadline a timeout away."""
    kept = verdict(NOW, TIMER, LONG_AGO, NOW + SKEW, None)
    assert kept == Keep(NOW + MINUTE, "active at 2026-03-01T12:00:00Z")


def test_a_directory_that_is_not_there_does_not_keep_an_instance() -> None:
    """Asked at the deadline it tells of no change, and that is idleness."""
    nothing = ChangesSeen.of(NOW, Changes(None, True, 0))
    assert verdict(NOW, WATCH, LONG_AGO, None, nothing) == Idle(LONG_AGO, "idle for 3600 s")


def test_a_directory_that_goes_does_not_take_back_its_last_change() -> None:
    """Nobody asks again before that change is as old as the timeout, so nothing is released."""
    changed = NOW - 20 * SECOND
    before = ChangesSeen(NOW, changed)
    for late in range(40):
        now = NOW + late * SECOND
        assert verdict(now, WATCH, LONG_AGO, None, before) == Keep(
            changed + MINUTE, f"active at {rfc3339(changed)}"
        )
    assert isinstance(verdict(changed + MINUTE, WATCH, LONG_AGO, None, before), Ask)


def test_an_agents_answer_is_read() -> None:
    """Nanoseconds become a moment, what was cut short says why, nonsense is no moment."""
    newest = int(NOW.timestamp()) * 10**9 + 1999
    assert ChangesSeen.of(NOW, Changes(newest, True, 3)) == ChangesSeen(
        NOW, NOW + timedelta(microseconds=1), complete=True
    )
    links = ("'/a' is a link", "'/b' is a link")
    assert ChangesSeen.of(NOW, Changes(None, False, 3, links)).trouble == (
        "'/a' is a link; '/b' is a link"
    )
    assert "500001 entries" in ChangesSeen.of(NOW, Changes(None, False, 500_001)).trouble
    assert ChangesSeen.of(NOW, Changes(10**40, True, 1)).newest is None


def test_a_question_counts_as_agents_count() -> None:
    """`since` in nanoseconds since 1970, to the microsecond."""
    moment = datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)
    assert Ask(("/a",), moment).since_ns == 1_000_005_000


def test_directories_that_tell_nothing_are_asked_neither_often_nor_rarely() -> None:
    """Between half a minute and five minutes apart, whatever the timeout."""
    assert re_ask(SECOND) == RE_ASK[0]
    assert re_ask(timedelta(days=30)) == RE_ASK[1]


# Laws


@given(around, specs, moments, moments, answers)
def test_whatever_is_kept_is_looked_at_again(
    now: datetime,
    spec: IdleSpec,
    claimed: datetime | None,
    active: datetime | None,
    changes: ChangesSeen | None,
) -> None:
    """Any clocks, any answers: total, never kept without an end, and the end lies ahead."""
    found = verdict(now, spec, claimed, active, changes)
    longest = max(timedelta(seconds=spec.timeout_seconds), RE_ASK[1])
    if isinstance(found, Keep):
        assert found.until is not None
        assert now < found.until <= now + longest


@given(around, specs, moments, st.floats(0, 1), answers)
def test_recent_activity_is_never_idleness(
    now: datetime,
    spec: IdleSpec,
    claimed: datetime | None,
    share: float,
    changes: ChangesSeen | None,
) -> None:
    """Activity later than the timeout ago keeps the instance, whatever else is seen."""
    timeout = timedelta(seconds=spec.timeout_seconds)
    ago = min(timeout * share, timeout - timedelta(microseconds=1))
    assert isinstance(verdict(now, spec, claimed, now - ago, changes), Keep)


@given(around, timeouts, st.timedeltas(SKEW + SECOND, timedelta(days=9000)))
def test_changes_dated_ahead_do_not_keep_it_busy(
    now: datetime, timeout: int, ahead: timedelta
) -> None:
    """A file from the future is no activity: with nothing else it is idle."""
    spec = IdleSpec(timeout_seconds=timeout, watch_dirs=("/workspace",))
    active = now - timedelta(seconds=timeout)
    changes = ChangesSeen(now, now + ahead, complete=True)
    assert isinstance(verdict(now, spec, active, active, changes), Idle)


@given(around, specs, moments, moments, answers)
def test_what_cannot_be_read_is_never_idleness(
    now: datetime,
    spec: IdleSpec,
    claimed: datetime | None,
    active: datetime | None,
    changes: ChangesSeen | None,
) -> None:
    """With watched directories idleness takes a complete answer, asked at or after the deadline."""
    found = verdict(now, spec, claimed, active, changes)
    if spec.watch_dirs and isinstance(found, Idle):
        assert changes is not None
        assert changes.complete
        assert found.since + timedelta(seconds=spec.timeout_seconds) <= changes.asked_at <= now


@given(
    st.lists(
        st.tuples(st.timedeltas(timedelta(days=-400), timedelta(days=400)), st.booleans()),
        max_size=4,
    ),
    specs,
    moments,
    moments,
)
def test_after_any_jumps_of_the_clock_it_ends_within_two_timeouts(
    jumps: list[tuple[timedelta, bool]],
    spec: IdleSpec,
    claimed: datetime | None,
    active: datetime | None,
) -> None:
    """The clock is set as it likes; once it is left alone, idleness is found in bounded time."""
    now = NOW
    newest = claimed  # of the files, which nobody touches
    changes: ChangesSeen | None = None

    def look() -> Verdict:
        nonlocal active, changes
        found = verdict(now, spec, claimed, active, changes)
        if isinstance(found, Restamp):
            active = now
        elif isinstance(found, Ask):
            changes = ChangesSeen(now, newest_of(now, newest), complete=True)
        return found

    for jump, looked in jumps:
        now += jump
        if looked:
            look()
    start, passes = now, 0
    while not isinstance(found := look(), Idle):
        if isinstance(found, Keep):
            assert found.until is not None
            now = found.until
        passes += 1
        assert passes < 10
    assert now - start <= 2 * timedelta(seconds=spec.timeout_seconds) + SKEW
