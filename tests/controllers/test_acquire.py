"""A tenant's call, from the wish to the answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.kinds import Dynamic, Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.wire import Reply, Request
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import Source
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.requests.acquire import BadTenant, UnknownWorkload
from boilerhouse.tenancy.claims.requests.release import NotClaimed
from tests.controllers.operator_fixture import World, running

SOON = timedelta(milliseconds=300)


@pytest.mark.parametrize("tenant", ["", "../../etc", "a/b", "a\nb", "x" * 10_000, "."])
async def test_bad_tenants_are_refused_by_the_one_rule(world: World, tenant: str) -> None:
    """Before anything is read or written."""
    with pytest.raises(BadTenant, match="printable"):
        await world.operator.acquirer.acquire(tenant, "web")


async def test_odd_but_legal_tenants_are_served(world: World) -> None:
    """The id is kept as it is; only names and labels are made of it."""
    await world.ready_workload()
    for tenant in ("org:acme", "Zoë Müller", "用户", "UPPER_case"):
        got = await world.operator.acquirer.acquire(tenant, "web")
        assert got.phase == "Active"
        assert got.claim is not None and got.claim.status is not None
        pod = await world.client.get(PODS, got.claim.status.instance_id)
        assert pod.metadata.annotations[names.TENANT_ID] == tenant


async def test_a_claim_without_a_warm_instance_is_born_with_its_choice(world: World) -> None:
    """The Pod that is made for it is named with the Claim's first write, and no two are alike."""
    await world.ready_workload()
    known = asyncio.Event()

    def ready(_: Change[Dynamic]) -> None:
        workload = world.operator.blueprints.cached("web")
        if workload is not None and workload.ready:
            known.set()

    world.operator.workload_informer.subscribe(ready)
    await asyncio.wait_for(known.wait(), 5)  # the operator may hear of it later than the test
    first: dict[str, str] = {}

    def heard(change: Change[Claim]) -> None:
        if change.new is not None:
            chosen = change.new.metadata.annotations.get(names.POD, "")
            first.setdefault(change.new.metadata.uid, chosen)

    world.operator.claim_informer.subscribe(heard)
    pods = set()
    for _ in range(2):
        got = await world.operator.acquirer.acquire("alice", "web")
        assert got.claim is not None and got.claim.status is not None
        assert got.source == Source.COLD
        assert first[got.claim.metadata.uid] == f"{got.claim.status.instance_id}/"
        pods.add(got.claim.status.instance_id)
        await world.client.delete(CLAIMS, got.claim.metadata.name)
        await world.gone(CLAIMS, got.claim.metadata.name)
    assert len(pods) == 2


async def test_an_unknown_workload_is_named(world: World) -> None:
    """And no Claim is left behind."""
    with pytest.raises(UnknownWorkload, match="nothing"):
        await world.operator.acquirer.acquire("alice", "nothing")
    assert (await world.client.list(CLAIMS)).items == []


@pytest.mark.slow
async def test_a_call_that_has_to_wait_is_answered_when_it_is_time(world: World) -> None:
    """Pending after the wait; the next call is woken by the Pod, without polling."""
    world.kubelet.behaviour = lambda pod, ip, now: None
    await world.ready_workload()
    acquire = world.operator.acquirer.acquire
    late = await acquire("alice", "web", wait=SOON)
    assert (late.phase, late.created, late.usable) == (ClaimPhase.PENDING, True, False)
    waiting = asyncio.create_task(acquire("alice", "web"))
    await world.kubelet.behave(running)
    assert (await waiting).phase == "Active"


async def test_an_error_is_an_answer_and_asking_again_tries_again(world: World) -> None:
    """Without waiting for the back-off."""
    world.images.absent.add("host")
    await world.workload()
    await world.operator.workload_informer.wait_synced()
    answer = await world.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=5))
    assert answer.phase in ("Error", "Pending")
    await world.claimed(names.claim_name("alice", "web"), "Error")
    world.images.absent.clear()
    await world.claimed(names.claim_name("alice", "web"))
    again = await world.operator.acquirer.acquire("alice", "web")
    assert again.usable


async def test_stages_add_up_to_the_whole(world: World) -> None:
    """So that a slow call can be explained."""
    await world.ready_workload()
    await world.full_pool(size=1)
    clock = world.clock
    began = clock.monotonic()
    got = await world.operator.acquirer.acquire("alice", "web")
    took = clock.monotonic() - began
    assert set(got.timings) == {"lookup", "create", "bind", "wait"}
    assert sum(got.timings.values()) <= took


@pytest.mark.parametrize("kept", [{}, {"overlayDirs": ["/data"]}], ids=["bare", "files"])
async def test_a_warm_claim_is_three_writes(world: World, kept: dict[str, Any]) -> None:
    """Create with finalizer and intent, bind, status. Nothing else before the answer."""
    await world.ready_workload(filesystem=kept)
    await world.full_pool(size=1)
    writes: list[str] = []
    real = world.client.transport.request

    async def counted(request: Request, *, timeout: float | None = None) -> Reply:
        if request.method != "GET" and ("claims" in request.path or "/pods/" in request.path):
            writes.append(f"{request.method} {request.path.split('/')[-2]}")
        return await real(request, timeout=timeout)

    world.client.transport.request = counted  # type: ignore[method-assign]
    with world.operator.gate.foreground():  # as in the API: the pool is filled later
        got = await world.operator.acquirer.acquire("alice", "web")
    seen = list(writes)
    assert got.phase == "Active"
    assert len(seen) == 3, seen


async def test_existing_writes_nothing(world: World) -> None:
    """One live GET; who wants to know of the use is told."""
    await world.ready_workload()
    first = await world.operator.acquirer.acquire("alice", "web")
    assert first.claim is not None
    name = first.claim.metadata.name
    await world.until(
        CLAIMS, name, lambda c: all(str(x.status) == "True" for x in c.status.conditions)
    )
    before = await world.client.get(CLAIMS, name)
    again = await world.operator.acquirer.acquire("alice", "web")
    after = await world.client.get(CLAIMS, name)
    assert not again.created
    assert before.metadata.resource_version == after.metadata.resource_version


async def test_releasing_what_is_not_claimed_is_refused(world: World) -> None:
    """And releasing twice at once is one release."""
    with pytest.raises(NotClaimed):
        await world.operator.releaser.release("nobody", "web")
    await world.ready_workload()
    await world.operator.acquirer.acquire("alice", "web")
    release = world.operator.releaser.release
    answers = await asyncio.gather(release("alice", "web"), release("alice", "web"))
    assert {answer.phase for answer in answers} == {ClaimPhase.RELEASED}


@pytest.mark.parametrize("at_hand", [False, True])
async def test_an_api_replica_needs_no_leader(world: World, at_hand: bool) -> None:
    """A process that only serves calls claims by itself, beside the operator."""
    await world.ready_workload()
    await world.full_pool(size=1)
    replica = world.another_operator(reconcile=False, at_hand=at_hand)
    stopping = asyncio.Event()
    task = asyncio.create_task(replica.run(stopping))
    for informer in replica.informers:
        await informer.wait_synced()
    got = await replica.acquirer.acquire("alice", "web")
    assert got.phase == "Active"
    stopping.set()
    await task


async def test_a_claim_under_another_name_is_the_tenants(world: World) -> None:
    """What kubectl applied under any name is found by tenant and workload: claimed, released."""
    await world.ready_workload()
    await world.claim("alice", name="by-hand")
    await world.claimed("by-hand")
    found = await world.operator.acquirer.acquire("alice", "web")
    assert (found.source, found.created) == (Source.EXISTING, False)
    assert found.claim is not None and found.claim.metadata.name == "by-hand"
    answer = await world.operator.releaser.release("alice", "web")
    assert answer.phase == ClaimPhase.RELEASED
    await world.gone(CLAIMS, "by-hand")
    assert await world.pods() == []


async def test_what_waits_behind_another_name_is_released_with_it(world: World) -> None:
    """Else the tenant that was just released would get the next instance at once."""
    await world.ready_workload()
    await world.claim("alice", name="by-hand")
    await world.claimed("by-hand")
    behind = await world.claim("alice")
    await world.claimed(behind, "Error")
    held = await world.operator.holdings.find("alice", "web")
    assert [claim.metadata.name for claim in held] == ["by-hand", behind]
    await world.operator.releaser.release("alice", "web")
    await world.gone(CLAIMS, "by-hand")
    await world.gone(CLAIMS, behind)
    assert await world.pods() == []


async def test_a_spent_claim_under_another_name_is_left_alone(world: World) -> None:
    """Its instance was lost: the tenant gets another under the canonical name."""
    await world.ready_workload()
    await world.claim("alice", name="by-hand")
    held = await world.claimed("by-hand")
    assert held.status is not None
    await world.client.delete(PODS, held.status.instance_id, grace=0)
    await world.claimed("by-hand", "Released")
    found = await world.operator.acquirer.acquire("alice", "web")
    assert found.usable and found.claim is not None
    assert found.claim.metadata.name == names.claim_name("alice", "web")
    assert (await world.client.get(CLAIMS, "by-hand")).metadata.uid == held.metadata.uid


async def test_the_lease_finds_what_no_informer_has_told(world: World) -> None:
    """A replica that has heard of nothing yet releases the right claim."""
    await world.ready_workload()
    await world.claim("alice", name="by-hand")
    await world.claimed("by-hand")
    deaf = world.another_operator(reconcile=False)
    held = await deaf.holdings.find("alice", "web")
    assert [claim.metadata.name for claim in held] == ["by-hand"]
    assert await deaf.holdings.find("bob", "web") == []


async def test_the_claim_is_written_however_short_the_wait(world: World) -> None:
    """Who does not wait at all has claimed all the same."""
    await world.ready_workload()
    found = await world.operator.acquirer.acquire("alice", "web", wait=timedelta(0))
    assert found.claim is not None and found.created
    await world.claimed(found.claim.metadata.name)


async def test_an_instance_that_is_going_is_not_handed_out(world: World) -> None:
    """As soon as this process has heard of the deletion, before the claim itself says so."""
    await world.ready_workload()
    first = await world.operator.acquirer.acquire("alice", "web")
    assert first.claim is not None and first.claim.status is not None
    name = first.claim.status.instance_id
    heard = asyncio.Event()

    def hear(change: Change[Pod]) -> None:
        if change.key.name == name and (
            change.new is None or change.new.metadata.deletion_timestamp is not None
        ):
            heard.set()

    world.operator.pod_informer.subscribe(hear)
    await world.client.delete(PODS, name, grace=30)
    await asyncio.wait_for(heard.wait(), 5)
    again = await world.operator.acquirer.acquire("alice", "web")
    assert again.usable and again.claim is not None and again.claim.status is not None
    assert again.claim.status.instance_id != name
