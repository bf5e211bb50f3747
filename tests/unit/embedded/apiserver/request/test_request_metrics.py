"""Every answered request is counted, by what it was and how it ended."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from boilerhouse.embedded.apiserver.request.metrics import count
from tests.contract.driver import Api


def _count(verb: str, resource: str, code: str) -> float:
    labels = {"verb": verb, "resource": resource, "code": code}
    return REGISTRY.get_sample_value("boilerhouse_apiserver_requests_total", labels) or 0.0


@pytest.mark.slow
async def test_requests_are_counted_by_verb_resource_and_code(api: Api) -> None:
    """Lists and watches are verbs of their own; failures count as what they are."""
    watched = ("WATCH", "configmaps", "200")
    listed = ("LIST", "configmaps", "200")
    refused = ("POST", "configmaps", "422")
    before = [_count(*labels) for labels in (watched, listed, refused)]
    await api.get("configmaps", watch=1, timeoutSeconds=1)
    await api.get("configmaps")
    await api.create("configmaps", {"metadata": {"name": "NO"}})
    after = [_count(*labels) for labels in (watched, listed, refused)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]


def test_durations_are_told_by_bound() -> None:
    """A request counts in the bucket of its duration and in every larger one, and in the sum."""
    name = "boilerhouse_apiserver_request_duration_seconds"
    for seconds in (0.0005, 0.003, 60):
        count("TRIED", "things", 200, seconds)

    def bucket(bound: str) -> float | None:
        return REGISTRY.get_sample_value(f"{name}_bucket", {"verb": "TRIED", "le": bound})

    assert [bucket(le) for le in ("0.0005", "0.001", "0.005", "5.0", "+Inf")] == [1, 1, 2, 2, 3]
    assert REGISTRY.get_sample_value(f"{name}_count", {"verb": "TRIED"}) == 3
    assert REGISTRY.get_sample_value(f"{name}_sum", {"verb": "TRIED"}) == pytest.approx(60.0035)
