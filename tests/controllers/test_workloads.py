"""Workloads that are deleted while claims want them, on an embedded API server."""

from __future__ import annotations

import pytest

from boilerhouse.platform.kube.resources import EVENTS
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.controllers.operator_fixture import World


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


@pytest.mark.slow
async def test_an_error_names_what_is_not_built_and_what_is_missing(world: World) -> None:
    """All at once, so that nobody mends one thing to hear of the next; the image may come."""
    world.images.absent.add("app")
    header = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}
    credential = {"domain": "api.example.com", "headers": [header]}
    await world.workload(
        image={"ref": "app"},
        network={"access": "restricted", "credentials": [credential]},
        filesystem={"overlayDirs": ["/data"], "encryptOverlays": True},
    )
    failed = await world.until(WORKLOADS, "web", lambda w: w.status.get("phase") == "Error")
    image = "image app is not in the store"
    for reason in ("restricted", "credentials", "encryptOverlays", image, "Secret keys"):
        assert reason in failed.status["detail"]
    world.images.absent.clear()
    await world.until(WORKLOADS, "web", lambda w: image not in w.status.get("detail", image))
