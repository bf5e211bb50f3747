"""What a Pool means when nothing is said."""

from __future__ import annotations

import msgspec

from boilerhouse.tenancy.pools.machine import PoolPhase
from boilerhouse.tenancy.pools.model import PoolSpec, PoolStatus
from tests.tables.specs import LEAST, POOL


def test_defaults() -> None:
    """A pool fills two at a time, and begins empty and Degraded."""
    assert msgspec.convert(LEAST[POOL], PoolSpec) == PoolSpec("agent", 3, 2)
    assert PoolStatus() == PoolStatus(phase=PoolPhase.DEGRADED, ready=0, warming=0, selector="")


def test_status_is_read_from_the_wire() -> None:
    """The counters, the selector and the detail arrive."""
    raw = {
        "phase": "Healthy",
        "ready": 2,
        "warming": 1,
        "selector": "boilerhouse.dev/pool=p",
        "detail": "all well",
        "observedGeneration": 4,
    }
    assert msgspec.convert(raw, PoolStatus) == PoolStatus(
        phase=PoolPhase.HEALTHY,
        ready=2,
        warming=1,
        selector="boilerhouse.dev/pool=p",
        detail="all well",
        observed_generation=4,
    )
