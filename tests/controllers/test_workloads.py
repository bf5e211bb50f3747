"""Workloads that are deleted while claims want them, on an embedded API server."""

from __future__ import annotations

from boilerhouse.kube.resources import EVENTS
from boilerhouse.workloads.objects import WORKLOADS
from tests.controllers.world import World


async def test_a_refused_claim_does_not_keep_a_workload_that_is_going(world: World) -> None:
    """Who claims a workload that is being deleted is refused, and does not hold up its end."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    await world.client.delete(WORKLOADS, "web")
    late = await world.claimed(await world.claim("bob"), "Error")
    assert late.status is not None
    assert late.status.detail == "workload web is being deleted"
    assert (await world.client.get(WORKLOADS, "web")).metadata.deletion_timestamp is not None
    assert (await world.operator.releaser.release("alice", "web")).phase == "Released"
    await world.gone(WORKLOADS, "web")
    assert claim.metadata.name != late.metadata.name


async def test_the_event_of_a_blocked_deletion_names_the_claims(world: World) -> None:
    """kubectl describe says who keeps the workload, not just that somebody does."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    await world.client.delete(WORKLOADS, "web")

    async def told() -> bool:
        events = (await world.client.list(EVENTS)).items
        return any(
            event.reason == "DeletionBlocked" and claim.metadata.name in event.message
            for event in events
        )

    await world.settles(told)
