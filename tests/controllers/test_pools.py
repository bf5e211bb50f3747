"""Pools and workloads at work, on an embedded API server with a pretended kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import EVENTS, PODS, RESOURCE_QUOTAS, SECRETS
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.controllers.operator_fixture import SPEC, World, running

Body = dict[str, Any]


def healthy(size: int) -> Any:
    return lambda p: p.status is not None and p.status.phase == "Healthy" and p.status.ready == size


async def test_kubectl_scale_up_and_down(world: World) -> None:
    """The scale subresource sets the size, and shows what is ready by the selector."""
    await world.ready_workload()
    await world.pool(size=1)
    await world.until(POOLS, "warm", healthy(1))
    await world.client.scale(POOLS, "warm", 4)
    await world.until(POOLS, "warm", healthy(4))
    assert len(await world.pods(pool="warm")) == 4
    await world.client.scale(POOLS, "warm", 2)
    await world.until(POOLS, "warm", healthy(2))
    scale = await world.client.scale(POOLS, "warm")
    assert (scale.spec.replicas, scale.status.replicas) == (2, 2)
    assert scale.status.selector == "boilerhouse.dev/managed=true,boilerhouse.dev/pool=warm"


async def test_a_pool_counts_from_its_birth(world: World) -> None:
    """Zero is a number too: of a pool that keeps none, and of one that cannot have any."""
    await world.ready_workload()
    await world.pool("none", size=0)
    await world.until(POOLS, "none", healthy(0))
    await world.pool("lost", workload="missing", size=1)
    await world.until(POOLS, "lost", lambda p: p.status is not None and p.status.phase == "Error")
    for name in ("none", "lost"):
        stored = await world.client.raw("GET", POOLS.path(world.client.namespace, name))
        assert (stored["status"]["ready"], stored["status"]["warming"]) == (0, 0)


async def test_a_changed_workload_rolls_its_pool(world: World) -> None:
    """Through Creating to Ready; every Pod is of the new template then."""
    await world.ready_workload()
    await world.full_pool(size=2)
    old = {pod.metadata.labels[names.TEMPLATE] for pod in await world.pods(pool="warm")}
    change = {"spec": {"entrypoint": {"cmd": "/bin/other"}}}
    await world.client.merge_patch(WORKLOADS, "web", change)

    async def rolled() -> bool:
        pods = await world.pods(pool="warm", **{"pool-status": "ready"})
        return len(pods) == 2 and not old & {p.metadata.labels[names.TEMPLATE] for p in pods}

    await world.settles(rolled)
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    pod = await world.client.get(PODS, claim.status.instance_id)
    assert pod.metadata.labels[names.TEMPLATE] not in old


async def test_deleting_a_pool_leaves_tenants_alone(world: World) -> None:
    """Only what is unclaimed goes; so does the Secret of its agent, in time."""
    await world.ready_workload()
    await world.full_pool(size=2)
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    await world.client.delete(POOLS, "warm")
    await world.gone(POOLS, "warm")
    assert await world.pods(pool="warm") == []
    await world.claimed(claim.metadata.name)
    await world.client.get(PODS, claim.status.instance_id)
    await world.client.get(SECRETS, names.agent_secret_name(claim.status.instance_id))


async def test_two_pools_on_one_workload_do_not_fight(world: World) -> None:
    """Each has its own Pods, a claim takes from either, and each is refilled."""
    await world.ready_workload()
    await world.full_pool("one", size=1)
    await world.full_pool("two", size=2)
    for tenant in ("alice", "bob", "carol"):
        claim = await world.claimed(await world.claim(tenant))
        assert claim.status is not None

    async def both_full() -> bool:
        ready = {"pool-status": "ready"}
        one, two = await world.pods(pool="one", **ready), await world.pods(pool="two", **ready)
        return (len(one), len(two)) == (1, 2)

    await world.settles(both_full)
    assert len(await world.pods(pool="one")) == 1
    assert len(await world.pods(pool="two")) == 2


async def test_an_evicted_warm_pod_is_replaced(world: World) -> None:
    """The pool is whole again, without the failed Pod."""
    await world.ready_workload()
    await world.full_pool(size=2)
    victim = (await world.pods(pool="warm"))[0]
    failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
    await world.client.merge_patch(PODS, victim.metadata.name, failed, subresource="status")
    await world.gone(PODS, victim.metadata.name)

    async def whole() -> bool:
        return len(await world.pods(pool="warm", **{"pool-status": "ready"})) == 2

    await world.settles(whole)


async def test_a_quota_refuses_and_then_gives_way(world: World) -> None:
    """Pool Degraded and claim Error with the server's words; both recover by themselves."""
    await world.ready_workload()
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await world.client.create(RESOURCE_QUOTAS, quota)
    await world.pool(size=1)
    pool = await world.until(POOLS, "warm", lambda p: p.status is not None and p.status.detail)
    assert pool.status.phase == "Degraded"
    assert "quota" in pool.status.detail
    claim = await world.claimed(await world.claim("alice"), "Error")
    assert claim.status is not None
    assert "quota" in claim.status.detail
    await world.client.delete(RESOURCE_QUOTAS, "none")
    await world.claimed(claim.metadata.name)
    await world.until(POOLS, "warm", healthy(1))


async def test_unschedulable_stays_pending_with_the_schedulers_words(world: World) -> None:
    """And goes on when there is room."""

    def full(pod: Pod, ip: str, now: str) -> Body:
        words = {"message": "0/1 nodes are available: 1 Insufficient memory."}
        cond = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **words}
        return {"phase": "Pending", "conditions": [cond]}

    world.kubelet.behaviour = full
    await world.ready_workload()
    name = await world.claim("alice")
    claim = await world.until(CLAIMS, name, lambda c: c.status is not None and c.status.detail)
    assert claim.status.phase == "Pending"
    assert "Insufficient memory" in claim.status.detail
    await world.kubelet.behave(running)
    await world.claimed(name)


@pytest.mark.slow
async def test_a_missing_image_is_an_error_until_it_appears(world: World) -> None:
    """Workload, pool and claim all say so, and all recover."""
    world.images.absent.add("host")
    await world.workload()
    failed = await world.until(WORKLOADS, "web", lambda w: w.status.get("phase") == "Error")
    assert "not in the store" in failed.status["detail"]
    await world.pool(size=1)
    await world.until(POOLS, "warm", lambda p: p.status is not None and p.status.phase == "Error")
    name = await world.claim("alice")
    await world.claimed(name, "Error")
    world.images.absent.clear()
    await world.claimed(name)
    await world.until(POOLS, "warm", healthy(1))


async def test_a_claim_waits_for_its_workload(world: World) -> None:
    """Missing is Error; when it comes, the claim is met without being touched."""
    name = await world.claim("alice")
    claim = await world.claimed(name, "Error")
    assert claim.status is not None
    assert claim.status.detail == "workload web does not exist"
    await world.workload()
    await world.claimed(name)


async def test_a_workload_that_is_needed_is_not_deleted(world: World) -> None:
    """The condition names the claim; when it is released the workload goes."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    await world.client.delete(WORKLOADS, "web")
    blocked = await world.until(
        WORKLOADS,
        "web",
        lambda w: any(c["type"] == "DeletionBlocked" for c in w.status.get("conditions", [])),
    )
    assert claim.metadata.name in str(blocked.status["conditions"])
    await world.client.delete(CLAIMS, claim.metadata.name)
    await world.gone(WORKLOADS, "web")


async def test_what_is_not_built_is_an_error_with_every_reason(world: World) -> None:
    """Accepted by the API server, refused by name."""
    spec = SPEC | {
        "network": {"access": "restricted"},
        "filesystem": {"overlayDirs": ["/w"], "encryptOverlays": True},
    }
    await world.client.create(WORKLOADS, {"metadata": {"name": "web"}, "spec": spec})
    failed = await world.until(WORKLOADS, "web", lambda w: w.status.get("phase") == "Error")
    assert "spec.network.access" in failed.status["detail"]
    assert "spec.filesystem.encryptOverlays" in failed.status["detail"]


async def test_every_transition_is_told_as_an_event(world: World) -> None:
    """With its reason, for kubectl describe."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    await world.client.delete(CLAIMS, claim.metadata.name)
    await world.gone(CLAIMS, claim.metadata.name)
    await world.operator.events.flushed()
    events = (await world.client.list(EVENTS)).items
    told = [e.message for e in events if e.involved_object.uid == claim.metadata.uid]
    assert {message.split(":")[0] for message in told} == {
        "Pending → Active",
        "Active → Releasing",
        "Releasing → Released",
    }


async def test_a_crash_looping_instance_stays_active(world: World) -> None:
    """Its condition tells, and a new call waits until it is ready again."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))

    def crashing(pod: Pod, ip: str, now: str) -> Body:
        status = running(pod, ip, now)
        status["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": now}]
        return status

    await world.kubelet.behave(crashing)
    ill = await world.until(
        CLAIMS,
        claim.metadata.name,
        lambda c: any(
            x.type == "InstanceReady" and x.status == "False" for x in c.status.conditions
        ),
    )
    assert ill.status.phase == "Active"
    await world.kubelet.behave(running)
    again = await world.operator.acquirer.acquire("alice", "web")
    assert again.usable
