"""Exponential back-off: how long to wait after so many failures in a row."""

from __future__ import annotations

from boilerhouse.core.clock import Random

_DOUBLINGS = 60  # more are far over any cap, and 2.0**1024 overflows


def backoff(failures: int, first: float, longest: float, rng: Random | None = None) -> float:
    """Return the seconds before the next try: `first`, doubled by each failure, `longest` at most.

    `failures` counts those before the last one. With `rng` it is between half of that and all of
    it, so that callers refused at one moment do not come back at one moment.
    """
    seconds = min(longest, first * 2.0 ** min(failures, _DOUBLINGS))
    return seconds if rng is None else seconds * rng.uniform(0.5, 1.0)
