"""The numbers of the loop, `boilerhouse_reconcile_*`, on the process's default registry.

controller ──► plain numbers (histogram.py) ──► collect ──► whoever asks for metrics
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import REGISTRY, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from boilerhouse.loop.histogram import Histogram

# From a cached no-op (a millisecond) to a pass that waits for a slow disk or a slow API server.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

SECONDS = Histogram(
    "boilerhouse_reconcile_seconds", "Time one pass took.", ["controller"], _SECONDS
)
WAIT = Histogram(
    "boilerhouse_reconcile_wait_seconds",
    "Time a key waited for a free worker.",
    ["controller"],
    _SECONDS,
)
QUEUED = Gauge("boilerhouse_reconcile_queued", "Keys that wait for a worker.", ["controller"])
DELAYED = Gauge("boilerhouse_reconcile_delayed", "Keys that wait for their time.", ["controller"])
ACTIVE = Gauge("boilerhouse_reconcile_active", "Passes under way.", ["controller"])
LEADING = Gauge("boilerhouse_reconcile_leading", "1 while this process holds the lease.")


class _Passes(Collector):
    """Passes by controller and result."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, int]] = {}

    def of(self, controller: str) -> dict[str, int]:
        """Return how many passes of a controller ended how: the same ones each time."""
        return self._of.setdefault(controller, {})

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "boilerhouse_reconcile_passes",
            "Passes by how they ended: done, again, put off, conflict, retry, terminal, error.",
            labels=["controller", "result"],
        )
        for controller, results in list(self._of.items()):
            for result, number in list(results.items()):
                family.add_metric([controller, result], number)
        yield family


PASSES = _Passes()
REGISTRY.register(PASSES)


class Of:
    """The numbers of one controller: looking a label up costs more than counting."""

    def __init__(self, controller: str) -> None:
        self.seconds = SECONDS.of(controller)
        self.wait = WAIT.of(controller)
        self._controller = controller
        self._passes = PASSES.of(controller)

    def watch(
        self, queued: Callable[[], int], delayed: Callable[[], int], active: Callable[[], int]
    ) -> None:
        """Have these counted when somebody looks, instead of noted at each change."""
        QUEUED.labels(self._controller).set_function(queued)
        DELAYED.labels(self._controller).set_function(delayed)
        ACTIVE.labels(self._controller).set_function(active)

    def ended(self, result: str) -> None:
        """Count a pass by how it ended."""
        self._passes[result] = self._passes.get(result, 0) + 1
