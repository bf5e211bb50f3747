"""What the policies need: pure.

Seen (what is there, what would be built) ─► decide ─► steps
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicySeen:
    """One policy of ours, as the server has it."""

    uid: str
    version: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class Seen:
    """One policy: as it is, if it is, and as it should be."""

    name: str
    wanted: Spec
    there: PolicySeen | None


@dataclass(frozen=True, slots=True)
class Create:
    """Make it."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Make exactly the one that was seen what it should be."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Wait:
    """It is as it should be."""


Plan = Create | Replace | Wait


def decide(seen: Seen) -> Plan:
    """Say what has to be done about one policy."""
    if seen.there is None:
        return Create()
    if seen.there.spec != seen.wanted:
        return Replace(seen.there.uid, seen.there.version)
    return Wait()
