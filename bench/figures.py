"""What a measurement says: a line of the table, and the numbers behind it."""

from __future__ import annotations

import statistics
import time
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


def interpreter(when: str) -> Figure:
    """Time a fixed piece of Python: how fast the machine is at this moment, for us."""
    times = []
    for _ in range(7):
        began = time.perf_counter()
        _steps()
        times.append(time.perf_counter() - began)
    what = f"yardstick: a fixed piece of Python, {when}"
    return Figure(what, f"{statistics.median(times) * 1e3:.0f} ms", raw=(*times,))


def _steps() -> None:
    found: dict[int, tuple[int, str]] = {}
    for number in range(300_000):
        found[number & 1023] = (number, str(number & 255))
        found.get(number & 511)
