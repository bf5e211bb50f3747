"""Which step of which object keeps failing, and when it may be tried again.

step raises ─► StepFailures.note ─► next Seen (count, why, due in) ─► decide: try, wait, or give up
step works  ─► StepFailures.clear

Kept in memory: a restarted process tries at once and counts anew, which does no harm, and a write
per failure would hurt just when the API server is ill. What people must see of it (the phase Error
and why) is written to the status by the decision that reads it here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from boilerhouse.core.backoff import backoff
from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.stepfailure import StepFailure

K = TypeVar("K", bound=Hashable)

BASE = timedelta(milliseconds=200)
CAP = timedelta(minutes=2)
LIMIT = 10_000  # objects; forgetting one only makes its next try come early


@dataclass(frozen=True, slots=True)
class _Noted:
    step: str
    why: str
    count: int
    refused: bool
    due: float


class StepFailures(Generic[K]):
    """The failures of one kind's objects, at most one step of each."""

    def __init__(
        self, clock: Clock, rng: Random, *, base: timedelta = BASE, cap: timedelta = CAP
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._base = base.total_seconds()
        self._cap = cap.total_seconds()
        self._noted: OrderedDict[K, _Noted] = OrderedDict()

    def of(self, key: K) -> StepFailure | None:
        """Return how far the object's failing step is, None if the last one worked."""
        noted = self._noted.get(key)
        if noted is None:
            return None
        # Of the monotonic clock: a wall clock that jumps must neither hurry nor hold a retry.
        due_in = timedelta(seconds=noted.due - self._clock.monotonic())
        return StepFailure(noted.step, noted.why, noted.count, noted.refused, due_in)

    def note(
        self, key: K, step: str, why: str, *, refused: bool = False, longer: float = 1.0
    ) -> None:
        """A step failed; each time in a row the next try comes later, `longer` times that."""
        before = self._noted.pop(key, None)
        count = 1 if before is None or before.step != step else before.count + 1
        delay = backoff(count - 1, longer * self._base, self._cap, self._rng)
        due = self._clock.monotonic() + delay
        self._noted[key] = _Noted(step, why, count, refused, due)
        while len(self._noted) > LIMIT:
            self._noted.popitem(last=False)

    def clear(self, key: K) -> None:
        """The step works, or somebody wants it tried now."""
        self._noted.pop(key, None)
