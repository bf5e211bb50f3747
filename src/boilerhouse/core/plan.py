"""Plans: what a pass over an object can decide to do. Pure.

decide(seen) ─► Do (steps) | WriteStatus, Delete (one write) | Wait

A plan is either steps or one write, never both: what must survive a crash is a write of its own.
Each kind has its own steps, and may have writes of its own beside these.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

AT_ONCE = timedelta(0)  # when an object wants to be looked at again after a change

Step_co = TypeVar("Step_co", covariant=True)
Status_co = TypeVar("Status_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Do(Generic[Step_co]):
    """Carry out steps, beside each other."""

    steps: tuple[Step_co, ...]


@dataclass(frozen=True, slots=True)
class WriteStatus(Generic[Status_co]):
    """Write the status, if the object is still as it was seen; `reason` names the Event."""

    status: Status_co
    reason: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object, if it is still as it was seen."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until something happens, or until it is time to look again."""

    why: str
    again_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Step: hold the object, so that it cannot go before what belongs to it."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Step: let the object go, nothing is left to clean up."""
