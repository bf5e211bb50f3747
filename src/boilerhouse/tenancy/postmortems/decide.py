"""How long a post-mortem is kept. Pure: Seen ─► Plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from boilerhouse.core.plan import Delete, Wait
from boilerhouse.tenancy.postmortems.model import KEPT, KEPT_FOR


@dataclass(frozen=True, slots=True)
class Seen:
    """One post-mortem; `younger` counts those of the same tenant and workload that came later."""

    now: datetime
    name: str
    uid: str
    version: str
    died_at: datetime
    younger: int


Plan = Delete | Wait


def decide(seen: Seen) -> Plan:
    """Return whether it has been kept long enough."""
    left = seen.died_at + KEPT_FOR - seen.now
    if seen.younger >= KEPT or left <= timedelta(0):
        return Delete()
    return Wait("it is kept for a while", left)
