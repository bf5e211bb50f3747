"""Claims from beginning to end, on an embedded API server with a pretended kubelet."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.tenancy.claims.model import Source
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.controllers.operator_fixture import Body, World, running


async def test_a_claim_without_a_pool_starts_cold(world: World) -> None:
    """kubectl apply of a Claim ends in an Active one, with endpoint, source and instance."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    assert claim.status.source == Source.COLD
    pod = await world.client.get(PODS, claim.status.instance_id)
    assert claim.metadata.annotations[names.POD] == f"{pod.metadata.name}/{pod.metadata.uid}"
    assert pod.metadata.annotations[names.CLAIM] == f"{claim.metadata.name}/{claim.metadata.uid}"
    assert pod.metadata.labels[names.TENANT] == "alice"
    assert claim.status.endpoint is not None
    assert (claim.status.endpoint.host, claim.status.endpoint.port) == (pod.status.pod_ip, 8080)


async def test_a_claim_takes_a_warm_instance(world: World) -> None:
    """With a full pool the source is pool, and the Pod leaves the pool, which is refilled."""
    await world.ready_workload()
    await world.full_pool(size=2)
    warm = {pod.metadata.uid for pod in await world.pods(pool="warm")}
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    assert claim.status.source == Source.POOL
    pod = await world.client.get(PODS, claim.status.instance_id)
    assert pod.metadata.uid in warm
    assert names.POOL not in pod.metadata.labels
    assert names.POOL_STATUS not in pod.metadata.labels
    assert pod.metadata.owner_references == []

    async def refilled() -> bool:
        return len(await world.pods(pool="warm", **{"pool-status": "ready"})) == 2

    await world.settles(refilled)


async def test_acquire_and_release(world: World) -> None:
    """Over the API's way: pool, then existing, then released and gone."""
    await world.ready_workload()
    await world.full_pool(size=1)
    got = await world.operator.acquirer.acquire("alice", "web")
    assert (got.phase, got.source, got.created) == ("Active", Source.POOL, True)
    again = await world.operator.acquirer.acquire("alice", "web")
    assert (again.phase, again.source, again.created) == ("Active", Source.EXISTING, False)
    answer = await world.operator.releaser.release("alice", "web")
    assert answer.phase == "Released"
    assert got.claim is not None
    await world.gone(CLAIMS, got.claim.metadata.name)
    assert await world.pods(tenant="alice") == []


@pytest.mark.slow
async def test_who_waits_in_vain_is_told_for_what(world: World) -> None:
    """An answer whose time is up carries what the claim says by then, such as the scheduler's."""
    full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    world.kubelet.behaviour = lambda pod, ip, now: {
        "phase": "Pending",
        "conditions": [full | {"lastTransitionTime": now}],
    }
    await world.ready_workload()
    answer = await world.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=1))
    assert (answer.phase, answer.source, answer.usable) == ("Pending", None, False)
    assert answer.claim is not None and answer.claim.status is not None
    assert answer.claim.status.detail == "no node can take the instance: full"


async def test_three_hundred_claims_of_one_tenant_give_one_instance(world: World) -> None:
    """However many ask at the same moment, the tenant has one instance."""
    await world.ready_workload()
    await world.full_pool(size=3)
    acquire = world.operator.acquirer.acquire
    answers = await asyncio.gather(*(acquire("alice", "web") for _ in range(300)))
    assert {answer.phase for answer in answers} == {"Active"}
    found = {a.claim.status.instance_id for a in answers if a.claim and a.claim.status}
    assert len(found) == 1
    assert len(await world.pods(tenant="alice")) == 1
    assert sum(answer.created for answer in answers) == 1


@pytest.mark.slow
async def test_many_tenants_at_once_get_instances_of_their_own(world: World) -> None:
    """Forty claims on forty warm Pods: all from the pool, none twice."""
    await world.ready_workload()
    await world.full_pool(size=40)
    acquire = world.operator.acquirer.acquire
    answers = await asyncio.gather(*(acquire(f"tenant-{n}", "web") for n in range(40)))
    assert {answer.source for answer in answers} == {Source.POOL}
    found = {a.claim.status.instance_id for a in answers if a.claim and a.claim.status}
    assert len(found) == 40


async def test_an_instance_that_is_destroyed_releases_its_claim(world: World) -> None:
    """The Pod is deleted behind the claim's back: Releasing, Released, and detail says why."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    await world.client.delete(PODS, claim.status.instance_id, grace=0)
    released = await world.claimed(claim.metadata.name, "Released")
    assert released.status is not None
    assert "destroyed or lost" in released.status.detail
    assert released.status.endpoint is None
    released = await world.until(CLAIMS, claim.metadata.name, lambda c: not c.metadata.finalizers)
    again = await world.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=10))
    assert (again.phase, again.created) == ("Active", True)


async def test_a_pending_claim_takes_up_a_repaired_workload(world: World) -> None:
    """An instance that never got ready is replaced by one of the new spec; its tenant has one."""
    await world.ready_workload(entrypoint={"cmd": "broken"})

    def serves(pod: Pod, ip: str, now: str) -> Body:
        status = running(pod, ip, now)
        if pod.spec.containers[0].command == ["broken"]:
            ended = {"exitCode": 3, "reason": "Error"}
            status["conditions"][1]["status"] = "False"
            status["containerStatuses"][0] |= {
                "ready": False,
                "restartCount": 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "it ends"}},
                "lastState": {"terminated": ended},
            }
        return status

    world.kubelet.behaviour = serves
    name = await world.claim("alice")
    crashing = await world.until(
        CLAIMS, name, lambda c: c.status is not None and "crashed 2 times" in c.status.detail
    )
    repaired = {"spec": {"entrypoint": {"cmd": "/bin/serve"}}}
    await world.client.merge_patch(WORKLOADS, "web", repaired)
    claim = await world.claimed(name)
    assert claim.metadata.annotations[names.POD] != crashing.metadata.annotations[names.POD]
    [pod] = await world.pods(tenant="alice")
    assert claim.status is not None and claim.status.instance_id == pod.metadata.name
    assert pod.spec.containers[0].command == ["/bin/serve"]


async def test_a_tenant_id_that_only_the_operator_can_refuse(world: World) -> None:
    """kubectl may apply it: Error with the rule, no instance; deleted, it is gone at once."""
    await world.ready_workload(filesystem={"overlayDirs": ["/data"]})
    claim = await world.claimed(await world.claim("e\u0301x", name="mine"), "Error")
    assert claim.status is not None
    assert names.TENANT_RULE in claim.status.detail
    assert names.POD not in claim.metadata.annotations and await world.pods() == []
    await world.client.delete(CLAIMS, "mine")
    await world.gone(CLAIMS, "mine")
