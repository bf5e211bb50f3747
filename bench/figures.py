"""What a measurement says: a line of the table, and the numbers behind it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """One line. An empty `budget` is a yardstick or a by-product; `within` is None for those."""

    what: str
    value: str
    budget: str = ""
    within: bool | None = None
    raw: tuple[float, ...] = ()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def milliseconds(seconds: Sequence[float]) -> str:
    """Spell latencies: median and 99th percentile."""
    p50, p99 = statistics.median(seconds), percentile(seconds, 0.99)
    return f"p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms"
