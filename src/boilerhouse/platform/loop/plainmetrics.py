"""How many there were, and how long they took, by labels: metrics of plain numbers.

Counter.count(labels)                  ──► plain numbers ──► collect ──► whoever asks for metrics
Histogram.of(labels) ──► Times.observe ──┘

The library's own take a lock for each number and check each time what they are, which is felt in
what takes a tenth of a millisecond. These are counted on the event loop, and read when asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Counter(Collector):
    """One metric of the process's default registry; its name there ends in `_total`."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str]) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._numbers: dict[tuple[str, ...], int] = {}
        REGISTRY.register(self)

    def count(self, *labels: str) -> None:
        """Count one with these labels."""
        self._numbers[labels] = self._numbers.get(labels, 0) + 1

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, number in list(self._numbers.items()):
            family.add_metric(labels, number)
        yield family


class Times:
    """How many took how long, by bound, and the seconds of all. Made by `Histogram.of`."""

    __slots__ = ("_bounds", "took", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.took = [0] * len(bounds)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.took[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds


class Histogram(Collector):
    """One metric of the process's default registry."""

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._bounds = (*bounds, float("inf"))
        self._of: dict[tuple[str, ...], Times] = {}
        REGISTRY.register(self)

    def of(self, *labels: str) -> Times:
        """Return the numbers of these labels, the same ones each time."""
        known = self._of.get(labels)
        if known is None:
            known = self._of[labels] = Times(self._bounds)
        return known

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        # Spelled by the library, which has no types for it: buckets are matched by their spelling.
        names = [floatToGoString(bound) for bound in self._bounds]  # type: ignore[no-untyped-call]
        for labels, times in list(self._of.items()):
            buckets = list(zip(names, map(float, accumulate(times.took)), strict=True))
            family.add_metric(labels, buckets, times.total)
        yield family
