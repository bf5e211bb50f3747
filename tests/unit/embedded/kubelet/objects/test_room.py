"""What Pods ask for, and whether it fits."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.kubelet.objects.room import (
    Ledger,
    Requests,
    requests,
    tolerates,
    unschedulable,
)


def box(cpu: str = "0", memory: str = "0", **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def test_containers_are_summed_and_init_containers_are_not() -> None:
    """The hungriest moment counts: an init container alone, or all main containers together."""
    spec = {"initContainers": [box("3"), box("1")], "containers": [box("1", "1Gi"), box("500m")]}
    assert requests(spec).cpu == parse("3")
    assert requests(spec).memory == parse("1Gi")


def test_sidecars_run_beside_what_follows_them() -> None:
    """A sidecar is counted with the main containers and with the init containers after it."""
    side = box("1", restartPolicy="Always")
    spec = {"initContainers": [box("2"), side, box("2")], "containers": [box("1500m")]}
    assert requests(spec).cpu == parse("3")
    assert requests({"initContainers": [side], "containers": [box("3")]}).cpu == parse("4")


def test_room_is_given_once_and_comes_back() -> None:
    """What lacks is named; giving twice and taking back twice change nothing."""
    ledger = Ledger(Requests(parse("2"), parse("1Gi"), parse("10Gi"), 2))
    one = requests({"containers": [box("1500m", "512Mi")]})
    assert ledger.lacking(one) == []
    ledger.give("a", one)
    ledger.give("a", one)
    assert ledger.lacking(one) == ["cpu"]
    assert ledger.lacking(requests({"containers": [box("500m", "1Gi")]})) == ["memory"]
    assert ledger.lacking(requests({"containers": [box()]})) == []
    ledger.give("b", requests({"containers": [box()]}))
    assert ledger.lacking(requests({"containers": [box()]})) == ["pods"]
    assert ledger.take_back("a")
    assert not ledger.take_back("a")
    assert ledger.lacking(one) == []


def test_the_words_are_a_schedulers() -> None:
    """Operators read these, on a cluster and here."""
    assert unschedulable(["cpu", "memory"], cordoned=False) == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. preemption: 0/1 nodes "
        "are available: 1 No preemption victims found for incoming pod."
    )
    assert "1 Too many pods" in unschedulable(["pods"], cordoned=False)
    assert "1 node(s) were unschedulable" in unschedulable([], cordoned=True)
    assert unschedulable(["cpu"], cordoned=False, taint="node.kubernetes.io/disk-pressure") == (
        "0/1 nodes are available: 1 node(s) had untolerated taint"
        " {node.kubernetes.io/disk-pressure: }. preemption: 0/1 nodes are available:"
        " 1 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "sick", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "sick", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "sick"}, True),
        ({"key": "sick", "value": "x"}, False),
        ({"value": ""}, False),
    ],
)
def test_a_pod_may_tolerate_a_taint(toleration: dict[str, str], tolerated: bool) -> None:
    """By key or all of them, for this effect or for all."""
    assert tolerates({"tolerations": [toleration]}, "sick") == tolerated
    assert not tolerates({}, "sick")
