"""What the product asks of the embedded kubelet."""

from __future__ import annotations

import asyncio

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.run.kubelet import BACKGROUND, FOREGROUND, kubelet_settings, pod_priority

WARM = {names.POOL: "pool"}
CLAIMED = {names.CLAIM: "claim-a/1"}


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [(WARM, {}, BACKGROUND), (WARM, CLAIMED, FOREGROUND), ({}, {}, FOREGROUND)],
    ids=["warm", "claimed", "cold"],
)
def test_only_a_warm_instance_starts_in_the_background(
    labels: dict[str, str], annotations: dict[str, str], expected: int
) -> None:
    """One with a claim, or without a pool, has a caller who waits."""
    pod = ObjectMeta(name="inst", namespace="shop", labels=labels, annotations=annotations)
    assert pod_priority(Gate())(pod, False) == expected


async def test_an_end_is_waited_for_while_its_tenant_claims_again() -> None:
    """Else instances end in the background."""
    gate = Gate()
    pod = ObjectMeta(name="inst", namespace="shop", annotations=CLAIMED)
    priority = pod_priority(gate)
    assert priority(pod, True) == BACKGROUND
    with gate.foreground(Key("shop", "claim-a")):
        await asyncio.sleep(0)
        assert priority(pod, True) == FOREGROUND


def test_the_names_are_those_of_the_product() -> None:
    """What the kubelet writes and reads is what instances and the helper have."""
    settings = kubelet_settings({})
    assert settings.volumes == {("boilerhouse", "boilerhouse-snapshots"): "snapshots"}
    assert settings.ports_annotation == "boilerhouse.dev/ports"
    assert settings.network_label == "boilerhouse.dev/network"
