"""The probes: what they answer to whom."""

from __future__ import annotations

import pytest

from boilerhouse.platform.loop import metrics
from boilerhouse.platform.loop.probes import Probes


def test_no_complaint_is_ok() -> None:
    """A healthy process answers 200 on each path."""
    probes = Probes(healthy=list, ready=list)
    for path in ("/healthz", "/livez", "/readyz"):
        assert probes.answer("GET", path)[::2] == (200, b"ok\n")


def test_complaints_are_told_line_by_line() -> None:
    """An unready process says what it waits for, and is still alive."""
    probes = Probes(healthy=list, ready=lambda: ["pods: not listed yet", "claims: deaf"])
    assert probes.answer("GET", "/readyz")[::2] == (503, b"pods: not listed yet\nclaims: deaf\n")
    assert probes.answer("GET", "/healthz")[0] == 200


def test_metrics_are_in_the_text_format() -> None:
    """Prometheus can scrape the loop's numbers."""
    metrics.QUEUED.labels("probed").set(3)
    status, content_type, body = Probes(healthy=list, ready=list).answer("GET", "/metrics")
    assert status == 200
    assert content_type.startswith("text/plain")
    assert b'boilerhouse_reconcile_queued{controller="probed"} 3.0' in body


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/healthz", 405)]
)
def test_other_requests_are_refused(method: str, path: str, status: int) -> None:
    """Nothing else is answered."""
    assert Probes(healthy=list, ready=list).answer(method, path)[0] == status
