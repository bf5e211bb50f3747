"""One object of ours that is to be exactly so: what it needs. Pure.

Seen (what should be there, what is) ─► decide ─► one write, or none

For objects that we alone write and nobody has a say in: budgets, network policies.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class There:
    """The object, as the server has it."""

    uid: str
    version: str
    spec: Body


@dataclass(frozen=True, slots=True)
class Seen:
    """As it should be, if it should, and as it is, if it is."""

    wanted: Body | None
    there: There | None


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
    """Remove exactly the one that was seen."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Wait:
    """It is as it should be."""


Plan = Create | Replace | Delete | Wait


def decide(seen: Seen, same: Callable[[Body, Body], bool] = operator.eq) -> Plan:
    """Say what has to be done about one object; only its spec is compared."""
    wanted, there = seen.wanted, seen.there
    if there is None:
        return Wait() if wanted is None else Create(wanted)
    if wanted is None:
        return Delete(there.uid, there.version)
    if not same(there.spec, wanted["spec"]):
        return Replace(there.uid, there.version, wanted)
    return Wait()
