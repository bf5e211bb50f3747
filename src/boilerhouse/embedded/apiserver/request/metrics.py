"""How many requests were answered how, and how long they took."""

from __future__ import annotations

from functools import cache

from prometheus_client import Counter, Histogram

_REQUESTS = Counter(
    "boilerhouse_apiserver_requests",
    "Requests answered by the embedded API, by verb, resource and status code.",
    ["verb", "resource", "code"],
)
_SECONDS = Histogram(
    "boilerhouse_apiserver_request_duration_seconds",
    "Time to answer; of a watch, time to its first byte.",
    ["verb"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)

# Looking a label up costs more than counting.
_requests = cache(_REQUESTS.labels)
_seconds = cache(_SECONDS.labels)


def count(verb: str, resource: str, code: int, seconds: float) -> None:
    """Count one answered request."""
    _requests(verb, resource, str(code)).inc()
    _seconds(verb).observe(seconds)
