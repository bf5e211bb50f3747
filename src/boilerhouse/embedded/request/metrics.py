"""How many requests were answered how, and how long they took.

server.handle ──► count ──► plain numbers ──► collect ──► whoever asks for metrics

The library's own counters take a lock for each number, which is felt in a request that takes a
tenth of a millisecond. Here everything is counted on the event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, float("inf"))


class _Answered:
    """Requests of one verb and resource with one outcome: how many took how long, by bound."""

    __slots__ = ("seconds", "took")

    def __init__(self) -> None:
        self.took = [0] * len(_BOUNDS)
        self.seconds = 0.0


class _Requests(Collector):
    def __init__(self) -> None:
        self._answered: defaultdict[tuple[str, str, int], _Answered] = defaultdict(_Answered)

    def count(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one answered request."""
        answered = self._answered[verb, resource, code]
        answered.took[bisect_left(_BOUNDS, seconds)] += 1
        answered.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "boilerhouse_apiserver_requests",
            "Requests answered by the embedded API, by verb, resource and status code.",
            labels=["verb", "resource", "code"],
        )
        verbs: defaultdict[str, list[_Answered]] = defaultdict(list)
        for (verb, resource, code), answered in list(self._answered.items()):
            total.add_metric([verb, resource, str(code)], sum(answered.took))
            verbs[verb].append(answered)
        yield total
        durations = HistogramMetricFamily(
            "boilerhouse_apiserver_request_duration_seconds",
            "Time to answer; of a watch, time to its first byte.",
            labels=["verb"],
        )
        # Spelled by the library, which has no types for it: buckets are matched by their spelling.
        names = [floatToGoString(bound) for bound in _BOUNDS]  # type: ignore[no-untyped-call]
        for verb, parts in verbs.items():
            took = map(sum, zip(*(part.took for part in parts), strict=True))
            buckets = list(zip(names, map(float, accumulate(took)), strict=True))
            durations.add_metric([verb], buckets, sum(part.seconds for part in parts))
        yield durations


_requests = _Requests()
REGISTRY.register(_requests)
count = _requests.count
