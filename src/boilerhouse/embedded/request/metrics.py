"""How many requests were answered how, and how long they took."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

_TOTAL = Counter(
    "boilerhouse_apiserver_requests_total",
    "Requests answered by the embedded API, by verb, resource and status code.",
    ["verb", "resource", "code"],
)
_SECONDS = Histogram(
    "boilerhouse_apiserver_request_duration_seconds",
    "Time to answer; of a watch, time to its first byte.",
    ["verb"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)

# Label look-ups cost more than the counting; the combinations are few.
_counters: dict[tuple[str, str, int], Counter] = {}
_timers: dict[str, Histogram] = {}


def count(verb: str, resource: str, code: int, seconds: float) -> None:
    """Count one answered request."""
    key = (verb, resource, code)
    counter = _counters.get(key)
    if counter is None:
        counter = _counters[key] = _TOTAL.labels(verb, resource, str(code))
    counter.inc()
    timer = _timers.get(verb)
    if timer is None:
        timer = _timers[verb] = _SECONDS.labels(verb)
    timer.observe(seconds)
