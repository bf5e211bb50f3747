"""Names of what belongs to an engine, and their limits."""

from __future__ import annotations

import pytest

from boilerhouse.engines.engines import names


def test_names_are_those_of_the_page() -> None:
    """A generation's objects carry its number, the Service that clients use does not."""
    assert names.statefulset("my-engine", 3) == "my-engine-g3"
    assert names.headless("my-engine", 3) == "my-engine-g3-hl"
    assert names.config("my-engine", 3) == "my-engine-g3-config"
    assert names.budget("my-engine", 3) == "my-engine-g3-pdb"
    assert names.service("my-engine") == "my-engine-service"


def test_each_pod_has_a_host_name() -> None:
    """Ordinals count from zero, through the headless Service."""
    assert names.hosts("e", "ns", 2, 2) == [
        "e-g2-0.e-g2-hl.ns.svc.cluster.local",
        "e-g2-1.e-g2-hl.ns.svc.cluster.local",
    ]


def test_the_longest_name_fits_everywhere() -> None:
    """With the last generation and the last ordinal, labels and host names are short enough."""
    engine = "e" * names.NAME_LIMIT
    last = names.LAST_GENERATION
    assert names.name_fault(engine) == ""
    assert len(names.statefulset(engine, last)) <= 52
    assert len(f"{names.statefulset(engine, last)}-{names.MOST_REPLICAS - 1}") <= 63
    assert len(names.config(engine, last)) <= 63
    assert len(names.budget(engine, last)) <= 63
    assert len(names.service(engine)) <= 63


def test_a_longer_name_is_refused() -> None:
    """One character more would make a StatefulSet whose Pods cannot be labelled."""
    fault = names.name_fault("e" * (names.NAME_LIMIT + 1))
    assert fault.startswith("metadata.name: ") and str(names.NAME_LIMIT) in fault
    assert len(names.statefulset("e" * (names.NAME_LIMIT + 1), names.LAST_GENERATION)) > 52


@pytest.mark.parametrize(
    ("label", "number"),
    [("0", 0), ("12", 12), ("-1", None), ("01", None), ("x", None), (None, None)],
)
def test_generation_labels_are_read(label: str | None, number: int | None) -> None:
    """A label that is no number of ours names no generation."""
    assert names.generation_of(label) == number
