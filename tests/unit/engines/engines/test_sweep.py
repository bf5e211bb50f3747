"""Which generations are swept: those that no status can need."""

from __future__ import annotations

from boilerhouse.engines.engines.seen import GenerationSeen
from boilerhouse.engines.engines.sweep import orphans
from tests.unit.engines.engines.seeing import (
    FOREIGN,
    GOING,
    SOUND,
    P,
    rolling,
    seen,
    selecting,
    whole,
)


def swept(*generations: GenerationSeen, selects: int | None = 1) -> list[int]:
    of = rolling(
        P.DRAINING,
        current_generation=5,
        active_generation=5,
        draining_generation=3,
        latest_generation=6,
    )
    return [one.number for one in orphans(seen(of, *generations, service=selecting(selects)))]


def test_what_the_status_names_is_kept() -> None:
    """Current, active and draining stay; the others go, the oldest first."""
    assert swept(*(whole(n) for n in (6, 5, 4, 3, 2)), selects=5) == [2, 4, 6]


def test_what_the_service_selects_is_kept() -> None:
    assert swept(whole(2), whole(4), selects=4) == [2]


def test_what_is_newer_than_the_status_is_kept() -> None:
    """The status may be an old one: a newer one may need it."""
    assert swept(whole(7), whole(8)) == []


def test_what_is_going_or_anothers_is_left_alone() -> None:
    assert swept(GenerationSeen(2, statefulset=GOING, config=FOREIGN)) == []


def test_a_last_piece_is_swept_too() -> None:
    """A generation of which only a ConfigMap is left."""
    assert swept(GenerationSeen(2, config=SOUND)) == [2]
