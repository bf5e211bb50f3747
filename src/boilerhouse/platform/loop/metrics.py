"""The numbers of the loop, `boilerhouse_reconcile_*`, on the process's default registry."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

# Else each counter and histogram has another series beside it that tells when it was made.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it

# From a cached no-op (a millisecond) to a pass that waits for a slow disk or a slow API server.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

PASSES = Counter(
    "boilerhouse_reconcile_passes",
    "Passes by how they ended: done, again, put off, conflict, retry, terminal, error.",
    ["controller", "result"],
)
SECONDS = Histogram(
    "boilerhouse_reconcile_seconds", "Time one pass took.", ["controller"], buckets=_SECONDS
)
WAIT = Histogram(
    "boilerhouse_reconcile_wait_seconds",
    "Time a key waited for a free worker.",
    ["controller"],
    buckets=_SECONDS,
)
QUEUED = Gauge("boilerhouse_reconcile_queued", "Keys that wait for a worker.", ["controller"])
DELAYED = Gauge("boilerhouse_reconcile_delayed", "Keys that wait for their time.", ["controller"])
ACTIVE = Gauge("boilerhouse_reconcile_active", "Passes under way.", ["controller"])
LEADING = Gauge("boilerhouse_reconcile_leading", "1 while this process holds the lease.")

_passes = cache(PASSES.labels)


class Of:
    """The numbers of one controller: looking a label up costs more than counting."""

    def __init__(self, controller: str) -> None:
        self.seconds = SECONDS.labels(controller)
        self.wait = WAIT.labels(controller)
        self._controller = controller

    def watch(
        self, queued: Callable[[], int], delayed: Callable[[], int], active: Callable[[], int]
    ) -> None:
        """Have these counted when metrics are asked for, instead of noted at each change."""
        QUEUED.labels(self._controller).set_function(queued)
        DELAYED.labels(self._controller).set_function(delayed)
        ACTIVE.labels(self._controller).set_function(active)

    def ended(self, result: str) -> None:
        """Count a pass by how it ended."""
        _passes(self._controller, result).inc()
