"""The numbers of the loop, `boilerhouse_reconcile_*`, on the process's default registry.

controller ──► plain numbers ──► collect ──► whoever asks for metrics

The library's own counters take a lock for each number, which is felt in a pass that takes a tenth
of a millisecond. Passes are counted on their event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import REGISTRY, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

# From a cached no-op (a millisecond) to a pass that waits for a slow disk or a slow API server.
_BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    float("inf"),
)

QUEUED = Gauge("boilerhouse_reconcile_queued", "Keys that wait for a worker.", ["controller"])
DELAYED = Gauge("boilerhouse_reconcile_delayed", "Keys that wait for their time.", ["controller"])
ACTIVE = Gauge("boilerhouse_reconcile_active", "Passes under way.", ["controller"])
LEADING = Gauge("boilerhouse_reconcile_leading", "1 while this process holds the lease.")


class Times:
    """How many took how long, by bound, and the seconds of all."""

    __slots__ = ("took", "total")

    def __init__(self) -> None:
        self.took = [0] * len(_BOUNDS)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.took[bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds


class Numbers:
    """The numbers of one controller: its passes by result, and what they and their keys took."""

    def __init__(self, controller: str) -> None:
        self.seconds = Times()
        self.wait = Times()
        self.passes: dict[str, int] = {}
        self._controller = controller

    def watch(
        self, queued: Callable[[], int], delayed: Callable[[], int], active: Callable[[], int]
    ) -> None:
        """Have these counted when somebody looks, instead of noted at each change."""
        QUEUED.labels(self._controller).set_function(queued)
        DELAYED.labels(self._controller).set_function(delayed)
        ACTIVE.labels(self._controller).set_function(active)

    def ended(self, result: str) -> None:
        """Count a pass by how it ended."""
        self.passes[result] = self.passes.get(result, 0) + 1


class _Passes(Collector):
    def __init__(self) -> None:
        self._of: dict[str, Numbers] = {}

    def of(self, controller: str) -> Numbers:
        """Return the numbers of a controller; of one name there is one set of them."""
        known = self._of.get(controller)
        if known is None:
            known = self._of[controller] = Numbers(controller)
        return known

    def collect(self) -> Iterator[Metric]:
        passes = CounterMetricFamily(
            "boilerhouse_reconcile_passes",
            "Passes by how they ended: done, again, put off, conflict, retry, terminal, error.",
            labels=["controller", "result"],
        )
        seconds = HistogramMetricFamily(
            "boilerhouse_reconcile_seconds", "Time one pass took.", labels=["controller"]
        )
        wait = HistogramMetricFamily(
            "boilerhouse_reconcile_wait_seconds",
            "Time a key waited for a free worker.",
            labels=["controller"],
        )
        for controller, numbers in list(self._of.items()):
            for result, number in list(numbers.passes.items()):
                passes.add_metric([controller, result], number)
            _add(seconds, controller, numbers.seconds)
            _add(wait, controller, numbers.wait)
        yield from (passes, seconds, wait)


def _add(family: HistogramMetricFamily, controller: str, times: Times) -> None:
    # Spelled by the library, which has no types for it: buckets are matched by their spelling.
    names = [floatToGoString(bound) for bound in _BOUNDS]  # type: ignore[no-untyped-call]
    buckets = list(zip(names, map(float, accumulate(times.took)), strict=True))
    family.add_metric([controller], buckets, times.total)


_passes = _Passes()
REGISTRY.register(_passes)
of = _passes.of
