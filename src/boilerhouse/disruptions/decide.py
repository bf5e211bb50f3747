"""What the budget needs: pure.

Seen (how many Pods are claimed, what the budget says) ─► decide ─► one write, or none
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boilerhouse.disruptions.build import budget

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """The budget, as the server has it."""

    uid: str
    version: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class Seen:
    """How many Pods are claimed, and the budget, if there is one."""

    claimed: int
    there: BudgetSeen | None


@dataclass(frozen=True, slots=True)
class Create:
    """Make it, for so many."""

    claimed: int


@dataclass(frozen=True, slots=True)
class Replace:
    """Make exactly the one that was seen say so many."""

    uid: str
    version: str
    claimed: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove exactly the one that was seen: it would cover nobody."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Wait:
    """It is as it should be."""


Plan = Create | Replace | Delete | Wait


def decide(seen: Seen) -> Plan:
    """Say what has to be done about the budget."""
    there, claimed = seen.there, seen.claimed
    if there is None:
        return Create(claimed) if claimed else Wait()
    if not claimed:
        return Delete(there.uid, there.version)
    if there.spec != budget(claimed)["spec"]:
        return Replace(there.uid, there.version, claimed)
    return Wait()
