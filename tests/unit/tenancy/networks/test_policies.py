"""NetworkPolicies around instances: built, decided upon, kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.core.upkeep import Create, Replace, Seen, There, Wait, decide
from boilerhouse.operator.keepers import network_policies
from boilerhouse.platform.kube.resources import NETWORK_POLICIES as POLICIES
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.networks.build import INGRESS, NONE, UNRESTRICTED, policies
from boilerhouse.tenancy.snapshots.build import HelperSettings, helper_pod
from tests.controllers.operator_fixture import Kept, World, opened, started


def test_nothing_may_be_reached_unless_it_is_said() -> None:
    """An instance that says none, something unknown or nothing at all reaches nothing."""
    assert policies()[NONE]["spec"] == {
        "podSelector": {
            "matchLabels": {names.MANAGED: "true"},
            "matchExpressions": [
                {"key": names.NETWORK, "operator": "NotIn", "values": ["unrestricted"]}
            ],
        },
        "policyTypes": ["Egress"],
    }


def test_unrestricted_is_everything() -> None:
    """Said outright, so that a default of the namespace does not take it away."""
    assert policies()[UNRESTRICTED]["spec"] == {
        "podSelector": {
            "matchLabels": {names.MANAGED: "true", names.NETWORK: "unrestricted"},
        },
        "policyTypes": ["Egress"],
        "egress": [{}],
    }


def test_the_agent_is_for_the_helper_alone() -> None:
    """Port 7711 is in no other rule, and the helper's Pod has the label that opens it."""
    spec = policies()[INGRESS]["spec"]
    assert spec["podSelector"] == {"matchLabels": {names.MANAGED: "true"}}
    helper, others = spec["ingress"]
    assert helper["ports"] == [{"protocol": "TCP", "port": 7711}]
    assert not any(_covers(port, 7711) for port in others["ports"] if port["protocol"] == "TCP")
    assert all(
        any(_covers(port, n) for port in others["ports"]) for n in (1, 80, 7710, 7712, 65535)
    )
    (peer,) = helper["from"]
    labels = helper_pod(HelperSettings(), "uid")["metadata"]["labels"]
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()


def _covers(port: dict[str, Any], number: int) -> bool:
    return bool(port["port"] <= number <= port.get("endPort", port["port"]))


def test_what_is_missing_is_made_and_what_was_changed_is_restored() -> None:
    """What is as it should be is left alone."""
    wanted = policies()[NONE]
    assert decide(Seen(wanted, None)) == Create(wanted)
    assert decide(Seen(wanted, There("u", "1", wanted["spec"]))) == Wait()
    opened_up = {**wanted["spec"], "egress": [{}]}
    assert decide(Seen(wanted, There("u", "1", opened_up))) == Replace("u", "1", wanted)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "data") as found:
        yield found


def kept(world: World) -> Kept:
    return Kept(world.clock, network_policies(world.client))


async def test_policies_come_back(world: World) -> None:
    """Deleted or opened up by somebody, each is soon what it was."""
    async with started(kept(world).manager):
        for name, body in policies().items():
            found = await world.until(POLICIES, name, lambda policy: True)
            assert found.spec == body["spec"]  # as the server hands it back: nothing to restore
        before = await world.client.get(POLICIES, NONE)
        await world.client.delete(POLICIES, NONE)
        await world.until(POLICIES, NONE, lambda p: p.metadata.uid != before.metadata.uid)
        await world.client.merge_patch(POLICIES, NONE, {"spec": {"egress": [{}]}})
        await world.until(POLICIES, NONE, lambda policy: not policy.spec.get("egress"))


async def test_two_keepers_do_not_fight(world: World) -> None:
    """Each finds what the other did; names of others are not touched."""
    one, two = kept(world), kept(world)
    for keeper in (one, two):
        (controller,) = keeper.controllers
        await asyncio.gather(*(controller.run_inline(key) for key in _keys(world)))
    assert {p.metadata.name for p in (await world.client.list(POLICIES)).items} == set(policies())
    (declared,) = one.declared
    assert await declared.read(Key(world.client.namespace, "somebody-elses")) is None


def _keys(world: World) -> list[Key]:
    return [Key(world.client.namespace, name) for name in policies()]
