"""How long an instance has not been ready."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from boilerhouse.core.clock import FakeClock
from boilerhouse.tenancy.instances.patience import Patience
from tests.unit.tenancy.claims.views import warm

WAITING = warm(ready=False)


def test_waiting_is_counted_from_the_first_look() -> None:
    """And forgotten when the instance is ready."""
    clock = FakeClock()
    patience = Patience(clock)
    assert patience.timed(WAITING).waited == timedelta(0)
    clock.advance(7)
    assert patience.timed(WAITING).waited == timedelta(seconds=7)
    assert patience.timed(replace(WAITING, uid="another")).waited == timedelta(0)
    assert patience.timed(warm()) == warm()
    assert patience.timed(WAITING).waited == timedelta(0)


def test_a_clock_that_jumps_makes_nobody_wait_longer() -> None:
    """The wall clock is somebody else's."""
    clock = FakeClock()
    patience = Patience(clock)
    patience.timed(WAITING)
    clock.set(clock.now() + timedelta(hours=3))
    assert patience.timed(WAITING).waited == timedelta(0)
