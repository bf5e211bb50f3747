"""What a budget needs: pure.

Seen (what is there, what would be built) ─► decide ─► one write, or none
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """A budget, as the server has it."""

    uid: str
    version: str
    spec: Body


@dataclass(frozen=True, slots=True)
class Seen:
    """One budget: as it should be, if it should, and as it is, if it is."""

    wanted: Body | None
    there: BudgetSeen | None


@dataclass(frozen=True, slots=True)
class Create:
    """Make it."""

    body: Body


@dataclass(frozen=True, slots=True)
class Replace:
    """Make exactly the one that was seen what it should be."""

    uid: str
    version: str
    body: Body


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove exactly the one that was seen: there is nobody for it to cover."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Wait:
    """It is as it should be."""


Plan = Create | Replace | Delete | Wait


def decide(seen: Seen) -> Plan:
    """Say what has to be done about one budget."""
    wanted, there = seen.wanted, seen.there
    if there is None:
        return Wait() if wanted is None else Create(wanted)
    if wanted is None:
        return Delete(there.uid, there.version)
    if there.spec != wanted["spec"]:
        return Replace(there.uid, there.version, wanted)
    return Wait()
