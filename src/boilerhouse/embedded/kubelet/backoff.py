"""How long to wait before the next try: of a container that ended, of an image that is missing.

    exit ─► Backoff.after(ran) ─► 0, 10, 20, 40 … 300 seconds

The first restart is immediate: most processes that end do so once. One that then ran long enough
has earned a fresh start.
"""

from __future__ import annotations

from dataclasses import dataclass

from boilerhouse.core.backoff import backoff

FIRST = 10.0
LONGEST_SECONDS = 300.0
FORGIVEN_AFTER = 600.0  # seconds of running after which earlier failures count no more


@dataclass(slots=True)
class Backoff:
    """One thing's failures in a row."""

    first: float = FIRST
    longest: float = LONGEST_SECONDS
    failures: int = 0

    def after(self, ran: float = 0.0) -> float:
        """Count an end after `ran` seconds and return how long to wait: nothing, at first."""
        if ran >= FORGIVEN_AFTER:
            self.failures = 0
        self.failures += 1
        if self.failures == 1:
            return 0.0
        return backoff(self.failures - 2, self.first, self.longest)

    def again(self) -> float:
        """Count a failed attempt and return how long to wait: never nothing."""
        self.failures += 1
        return backoff(self.failures - 1, self.first, self.longest)
