"""Time is written and read as Kubernetes does, and stands still when a test says so."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.core.clock import (
    Clock,
    FakeClock,
    SystemClock,
    new_rng,
    new_uid,
    parse_time,
    rfc3339,
    rfc3339_micro,
    token,
)

MOMENT = datetime(2026, 1, 31, 12, 0, 5, 123456, tzinfo=UTC)


def test_seconds_are_cut_not_rounded() -> None:
    """`rfc3339` never names a second that has not begun."""
    assert rfc3339(MOMENT.replace(microsecond=999_999)) == "2026-01-31T12:00:05Z"
    assert rfc3339_micro(MOMENT) == "2026-01-31T12:00:05.123456Z"


def test_other_zones_are_written_in_utc() -> None:
    """A moment is the same text wherever it was taken."""
    there = MOMENT.astimezone(timezone(timedelta(hours=-7)))
    assert rfc3339(there) == rfc3339(MOMENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:05Z", MOMENT.replace(microsecond=0)),
        ("2026-01-31T12:00:05.123456Z", MOMENT),
        ("2026-01-31T12:00:05.123456789Z", MOMENT),
        ("2026-01-31T12:00:05.1Z", MOMENT.replace(microsecond=100_000)),
        ("2026-01-31t14:00:05+02:00", MOMENT.replace(microsecond=0)),
    ],
)
def test_every_rfc3339_spelling_is_read(text: str, expected: datetime) -> None:
    """Offsets, lower case and any number of decimals are understood; the answer is in UTC."""
    assert parse_time(text) == expected
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:05",
        "2026-W01-1T00:00:00Z",
        "2026-02-30T00:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    """What is not a moment with a zone is a ValueError, never a guess."""
    with pytest.raises(ValueError):
        parse_time(text)


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2)))  # noqa: DTZ001
def test_micro_times_survive_the_wire(moment: datetime) -> None:
    """What is written is what is read back."""
    assert parse_time(rfc3339_micro(moment)) == moment


def test_naive_moments_are_refused() -> None:
    """A moment without a zone would be read as local time, so it is an error."""
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    for call in (rfc3339, rfc3339_micro, FakeClock):
        with pytest.raises(ValueError, match="without a time zone"):
            call(naive)


def test_fake_clock_moves_only_when_told() -> None:
    """Passing time moves both readings; setting the wall clock leaves the monotonic one alone."""
    clock = FakeClock(MOMENT)
    assert (clock.now(), clock.monotonic()) == (MOMENT, 0.0)
    clock.advance(timedelta(minutes=1))
    clock.advance(0.5)
    assert (clock.now(), clock.monotonic()) == (MOMENT + timedelta(seconds=60.5), 60.5)
    clock.set(MOMENT - timedelta(days=1))
    assert (clock.now(), clock.monotonic()) == (MOMENT - timedelta(days=1), 60.5)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_system_clock_is_a_clock_in_utc() -> None:
    """The real clock gives aware UTC and a reading that does not go backwards."""
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()


def test_chance_is_fresh_or_repeatable() -> None:
    """Uids and tokens differ each time; a seeded generator repeats itself."""
    assert new_uid() != new_uid()
    assert uuid.UUID(new_uid()).version == 4
    assert token() != token()
    assert new_rng(7).random() == new_rng(7).random()


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"])
def test_a_time_beyond_the_calendar_is_no_time(text: str) -> None:
    """An offset that leads out of the years that there are is refused like any other nonsense."""
    with pytest.raises(ValueError, match="out of range"):
        parse_time(text)
