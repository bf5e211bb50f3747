"""Histograms of plain numbers, as whoever scrapes them sees them."""

from __future__ import annotations

from prometheus_client import REGISTRY

from boilerhouse.platform.loop.plainmetrics import Histogram


def test_what_took_how_long_is_told_by_labels() -> None:
    """Buckets add up, their bounds belong to them, and what is longer than all is counted too."""
    histogram = Histogram("test_seconds", "For this test.", ["who", "what"], (0.1, 1))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.of("me", "this").observe(seconds)
    histogram.of("me", "that").observe(0.2)
    try:
        labels = {"who": "me", "what": "this"}
        told = [
            REGISTRY.get_sample_value("test_seconds_bucket", {**labels, "le": bound})
            for bound in ("0.1", "1.0", "+Inf")
        ]
        assert told == [2, 3, 4]
        assert REGISTRY.get_sample_value("test_seconds_count", labels) == 4
        assert REGISTRY.get_sample_value("test_seconds_sum", labels) == 7.65
        assert REGISTRY.get_sample_value("test_seconds_count", {**labels, "what": "that"}) == 1
    finally:
        REGISTRY.unregister(histogram)
