"""The ways in which systems like this one lose or cross tenants, each shut.

Most tests have a process whose caches are frozen (`frozen`): it acts on what was true once, which
is what a slow watch, a paused process or a failover amounts to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import FakeClock
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, SECRETS, Key
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.model import Source
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.requests.acquire import AnotherTenant, UnknownWorkload
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.controllers.operator_fixture import World, frozen, opened, running_world, started
from tests.e2e.tenants import eventually

QUICK = timedelta(seconds=10)


@pytest.fixture
async def still(tmp_path: Path) -> AsyncIterator[World]:
    """A world with a Ready workload and a full pool of two, in which nothing moves by itself."""
    async with opened(tmp_path / "data") as world:
        async with started(world.kubelet.manager, world.operator):
            await world.ready_workload()
            await world.full_pool(size=2)
        yield world


def key(tenant: str) -> Key:
    return Key("boilerhouse", names.claim_name(tenant, "web"))


async def claim_of(world: World, tenant: str) -> Claim:
    return await world.client.get(CLAIMS, key(tenant).name)


async def active(world: World, operator: Operator, tenant: str) -> tuple[Claim, Pod]:
    """Claim by way of one process; return the Claim and its Pod."""
    got = await operator.acquirer.acquire(tenant, "web", wait=QUICK)
    assert got.claim is not None and got.claim.status is not None, got
    assert got.phase == "Active"
    return got.claim, await world.client.get(PODS, got.claim.status.instance_id)


async def test_1_two_processes_make_one_cold_pod(still: World) -> None:
    """The second process knows neither intent nor Pod, and still ends with the first one's."""
    await still.client.delete_collection(PODS, labels={names.POOL: "warm"}, grace=0)
    name = await still.claim("alice")
    async with frozen(still.another_operator()) as one, frozen(still.another_operator()) as two:
        await one.claims.run_until(Key("boilerhouse", name), lambda: False)
        await two.claims.run_until(Key("boilerhouse", name), lambda: False)
    (pod,) = await still.pods(tenant="alice")
    intent = Intent.parse((await claim_of(still, "alice")).metadata.annotations[names.POD])
    assert intent == Intent(pod.metadata.name, pod.metadata.uid)


async def test_2_two_processes_never_adopt_the_same_pod(still: World) -> None:
    """Both see the same two warm Pods; each tenant gets one of its own."""
    async with frozen(still.another_operator()) as one, frozen(still.another_operator()) as two:
        (_, first), (_, second) = await asyncio.gather(
            active(still, one, "alice"), active(still, two, "bob")
        )
    assert first.metadata.uid != second.metadata.uid
    assert first.metadata.labels[names.TENANT] == "alice"
    assert second.metadata.labels[names.TENANT] == "bob"


async def test_3_a_dying_pod_is_not_adopted(still: World) -> None:
    """It was ready when the caches froze, and has been told to stop since."""
    async with frozen(still.another_operator()) as one:
        dying, healthy = await still.pods(pool="warm")
        await still.client.delete(PODS, dying.metadata.name)
        _, pod = await active(still, one, "alice")
    assert pod.metadata.uid == healthy.metadata.uid


async def test_4_nobody_is_sent_to_an_instance_that_is_being_released(still: World) -> None:
    """Claiming during a release waits for its end, and gets a new instance."""
    async with frozen(still.another_operator()) as one:
        claim, first = await active(still, one, "alice")
        await still.client.delete(CLAIMS, claim.metadata.name)
        again, second = await active(still, one, "alice")
    assert again.metadata.uid != claim.metadata.uid
    assert second.metadata.uid != first.metadata.uid


async def test_5_a_crash_after_the_bind_goes_on_with_the_same_pod(still: World) -> None:
    """The next process finds the bound Pod by the intent, and it is still from the pool."""
    async with frozen(still.another_operator()) as one:
        spare = one.spares.reserve("test", "web", one.blueprints.cached("web").template)  # type: ignore[union-attr]  # it is there
        assert spare is not None
        one.spares.give_back("test")
        body = {
            "metadata": {
                "name": key("alice").name,
                "annotations": {names.POD: str(spare)},
                "finalizers": [names.FINALIZER],
            },
            "spec": {"tenantId": "alice", "workloadRef": "web"},
        }
        one.claim_informer.observe(await still.client.create(CLAIMS, body))
        await one.claims.run_inline(key("alice"))  # binds, and dies
    async with frozen(still.another_operator()) as two:
        claim, pod = await active(still, two, "alice")
    assert pod.metadata.uid == spare.uid
    assert claim.status is not None
    assert claim.status.source == Source.POOL


async def test_6_a_step_that_fails_is_not_taken_for_success(world: World) -> None:
    """An identity that could not be delivered is not said to be, and arrives later."""
    world.identities.unreachable = True
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    told = {c.type: str(c.status) for c in claim.status.conditions}
    assert told == {"InstanceReady": "True", "IdentityDelivered": "Unknown"}
    world.identities.unreachable = False
    await world.until(
        CLAIMS,
        claim.metadata.name,
        lambda c: any(
            x.type == "IdentityDelivered" and x.status == "True" for x in c.status.conditions
        ),
    )
    assert [identity.tenant for _, identity in world.identities.told] == ["alice"]


@pytest.mark.slow
async def test_7_a_status_is_one_write_and_whole(still: World) -> None:
    """No reader ever sees Active without endpoint, instance, source and time."""
    async with frozen(still.another_operator()) as one:
        await active(still, one, "alice")
    async with still.client.watch(
        CLAIMS, resource_version="1", timeout_seconds=1, read_timeout=5
    ) as events:
        seen = [e.object.status async for e in events if e.object and e.object.status]
    assert {str(status.phase) for status in seen} >= {"Pending", "Active"}
    for status in seen:
        whole = (status.endpoint, status.source, status.claimed_at, status.instance_id)
        assert all(whole) == (status.phase == "Active")


async def test_8_what_happens_to_a_claim_meanwhile_wins(still: World) -> None:
    """A status that was decided before the tenant's last activity is not written over it."""
    async with frozen(still.another_operator()) as one:
        claim, pod = await active(still, one, "alice")
        async with frozen(still.another_operator()) as late:
            touch = {"metadata": {"annotations": {names.LAST_ACTIVITY: "now"}}}
            touched = await still.client.merge_patch(CLAIMS, claim.metadata.name, touch)
            await still.client.delete(PODS, pod.metadata.name, grace=0)
            late.pod_informer.forget(pod)
            await late.claims.run_inline(key("alice"))
    after = await claim_of(still, "alice")
    assert after.metadata.resource_version == touched.metadata.resource_version


async def test_9_only_our_own_finalizer_is_removed(world: World) -> None:
    """A finalizer of somebody else holds the Claim until its owner lets go."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    both = {"metadata": {"finalizers": [*claim.metadata.finalizers, "example.com/mine"]}}
    await world.client.merge_patch(CLAIMS, claim.metadata.name, both)
    await world.client.delete(CLAIMS, claim.metadata.name)
    held = await world.until(
        CLAIMS, claim.metadata.name, lambda c: names.FINALIZER not in c.metadata.finalizers
    )
    assert held.metadata.finalizers == ["example.com/mine"]
    assert held.status.phase == "Released"


async def test_9_a_finalizer_that_holds_a_claim_is_named(world: World) -> None:
    """To who claims again, until the workload is gone: then there is nothing to wait for."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    both = {"metadata": {"finalizers": [*claim.metadata.finalizers, "example.com/x"]}}
    await world.client.merge_patch(CLAIMS, claim.metadata.name, both)
    began = asyncio.get_running_loop().time()
    released = await world.operator.releaser.release("alice", "web", wait=timedelta(seconds=60))
    assert asyncio.get_running_loop().time() - began < 30
    assert released.phase == "Released"
    words = "held by the finalizer example.com/x"
    await world.until(CLAIMS, claim.metadata.name, lambda c: words in c.status.detail)
    again = await world.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=0.2))
    assert again.claim is not None and again.claim.status is not None
    assert again.claim.status.detail.count(words) == 1

    await world.client.delete(WORKLOADS, "web")
    await world.gone(WORKLOADS, "web")

    async def heard() -> bool:
        return world.operator.workload_informer.get(world.client.namespace, "web") is None

    await eventually(heard)
    with pytest.raises(UnknownWorkload):
        await world.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=5))


async def test_10_nothing_of_an_earlier_incarnation_is_used_again(still: World) -> None:
    """Pod, Secret and claim of the second time are others than those of the first."""
    await still.client.delete_collection(PODS, labels={names.POOL: "warm"}, grace=0)
    async with (
        started(still.kubelet.manager),
        frozen(still.another_operator()) as one,
    ):
        first, pod = await active_cold(still, one)
        await one.releaser.release("alice", "web", wait=QUICK)
        second, other = await active_cold(still, one)
    assert first.metadata.uid != second.metadata.uid
    assert pod.metadata.name != other.metadata.name
    secret = await still.client.get(SECRETS, names.agent_secret_name(other.metadata.name))
    old = await still.client.get(SECRETS, names.agent_secret_name(pod.metadata.name))
    assert secret.data["token"] != old.data["token"]


async def active_cold(world: World, one: Operator) -> tuple[Claim, Pod]:
    """Claim with a cold start, by a process that hears of its Pod."""
    async with one.pod_informer.running(), one.claim_informer.running():
        claiming = asyncio.create_task(one.acquirer.acquire("alice", "web", wait=QUICK))
        while not claiming.done():
            await one.claims.run_until(key("alice"), lambda: False)
            await asyncio.sleep(0.02)
        got = await claiming
    assert got.claim is not None and got.claim.status is not None, got
    return got.claim, await world.client.get(PODS, got.claim.status.instance_id)


async def test_11_names_that_look_alike_are_different_claims(still: World) -> None:
    """a-b on c and a on b-c never meet; and a forged Claim under the name is not handed out."""
    assert names.claim_name("a-b", "c") != names.claim_name("a", "b-c")
    spec = {"tenantId": "mallory", "workloadRef": "web"}
    await still.client.create(CLAIMS, {"metadata": {"name": key("alice").name}, "spec": spec})
    async with frozen(still.another_operator()) as one:
        with pytest.raises(AnotherTenant):
            await one.acquirer.acquire("alice", "web", wait=QUICK)


@pytest.mark.slow
async def test_12_two_operators_at_work_do_no_harm(tmp_path: Path) -> None:
    """A failover in which the old one never noticed: one instance each, the pool full."""
    async with running_world(tmp_path / "data") as world, started(world.another_operator()):
        await world.ready_workload()
        await world.full_pool(size=3)
        claims = [await world.claim(f"tenant-{n}") for n in range(8)]
        for name in claims:
            await world.claimed(name)
        pods = [pod for n in range(8) for pod in await world.pods(tenant=f"tenant-{n}")]
        assert len(pods) == 8

        async def full() -> bool:
            return len(await world.pods(pool="warm", **{"pool-status": "ready"})) == 3

        await world.settles(full)


# Rules of the intent (tenancy/claims/intent.py)


async def test_a_stale_pool_does_not_delete_a_pod_that_was_just_bound(still: World) -> None:
    """Its view says surplus; the Pod has a tenant by now. UID alone would not save it."""
    async with frozen(still.another_operator()) as stale, frozen(still.another_operator()) as one:
        _, pod = await active(still, one, "alice")
        (seen,) = [p for p in stale.pod_informer.cache if p.name == pod.metadata.name]
        view = await stale.instances.look(seen.name, pod.metadata.uid)
        assert view is not None and view.claim is None
        assert not await stale.instances.delete(view, grace=0)
    assert (await still.client.get(PODS, pod.metadata.name)).metadata.uid == pod.metadata.uid


async def test_a_cache_that_knows_nothing_releases_nothing(still: World) -> None:
    """An Active claim whose Pod is not in the cache: the server is asked, and says it is there."""
    async with frozen(still.another_operator()) as one:
        _, pod = await active(still, one, "alice")
        one.pod_informer.cache.forget(pod)
        await one.claims.run_until(key("alice"), lambda: False)
    assert (await claim_of(still, "alice")).status.phase == "Active"  # type: ignore[union-attr]  # it was read


async def test_a_pod_that_is_heard_of_late_is_not_lost(still: World) -> None:
    """A process knows that the claim is Active, and not yet that its Pod was bound."""
    async with frozen(still.another_operator()) as one, frozen(still.another_operator()) as late:
        claim, pod = await active(still, one, "alice")
        late.claim_informer.observe(claim)
        await late.claims.run_until(key("alice"), lambda: False)
    found = await claim_of(still, "alice")
    assert found.status is not None and found.status.phase == "Active"
    assert (await still.client.get(PODS, pod.metadata.name)).metadata.uid == pod.metadata.uid


async def test_an_instance_that_nothing_is_heard_of_is_asked_for(still: World) -> None:
    """A watch that holds back what it should tell does not hold up a tenant for ever."""
    await still.client.delete_collection(PODS, labels={names.POOL: "warm"}, grace=0)
    name, clock = await still.claim("alice"), FakeClock()

    async def phase(tenant: str) -> str:
        claim = await claim_of(still, tenant)
        return "" if claim.status is None else claim.status.phase

    async with frozen(still.another_operator(clock=clock)) as deaf:
        await deaf.claims.run_until(Key("boilerhouse", name), lambda: False)
        async with started(still.kubelet.manager):
            (pod,) = await still.pods(tenant="alice")
            await still.until(PODS, pod.metadata.name, lambda found: found.ready)
        await deaf.claims.run_until(Key("boilerhouse", name), lambda: False)
        assert await phase("alice") == "Pending"
        clock.advance(timedelta(seconds=5))
        await deaf.claims.run_until(Key("boilerhouse", name), lambda: False)
    assert await phase("alice") == "Active"


async def test_an_old_claim_in_the_cache_makes_no_stray(still: World) -> None:
    """The cache has the claim before it chose; its Pod is not deleted for that."""
    name = await still.claim("alice")
    async with frozen(still.another_operator()) as stale, frozen(still.another_operator()) as one:
        await one.claims.run_until(Key("boilerhouse", name), lambda: False)
        claim = await claim_of(still, "alice")
        assert claim.status is not None
        pod = await still.client.get(PODS, claim.status.instance_id)
        stale.pod_informer.observe(pod)
        await stale.claims.run_until(Key("boilerhouse", name), lambda: False)
    assert (await still.client.get(PODS, pod.metadata.name)).metadata.uid == pod.metadata.uid


async def test_a_stray_is_deleted_by_every_pass(world: World) -> None:
    """A late create under a name that was given up: never handed out, and gone."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    pod = await world.client.get(PODS, claim.status.instance_id)
    labels = {names.MANAGED: "true", names.WORKLOAD: "web", names.TENANT: "alice"}
    stray = {
        "metadata": {
            "name": "inst-late",
            "labels": labels,
            "annotations": {names.CLAIM: pod.metadata.annotations[names.CLAIM]},
        },
        "spec": {"containers": [{"name": "tenant", "image": "host"}]},
    }
    await world.client.create(PODS, stray)
    await world.gone(PODS, "inst-late")
    assert (await world.client.get(PODS, pod.metadata.name)).metadata.uid == pod.metadata.uid


async def test_pods_of_a_claim_that_is_gone_are_swept(world: World) -> None:
    """Somebody tore the finalizer off: the instance does not live on unseen."""
    await world.ready_workload()
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    await world.client.delete(CLAIMS, claim.metadata.name)
    await world.gone(PODS, claim.status.instance_id)


async def test_a_claim_cannot_name_a_pod_that_is_not_warm(world: World) -> None:
    """An intent that a user wrote neither takes nor deletes somebody else's Pod."""
    await world.ready_workload()
    pod = {
        "metadata": {"name": "precious"},
        "spec": {"containers": [{"name": "main", "image": "host"}]},
    }
    other = await world.client.create(PODS, pod)
    intent = {names.POD: f"precious/{other.metadata.uid}"}
    name = names.claim_name("mallory", "web")
    spec = {"tenantId": "mallory", "workloadRef": "web"}
    await world.client.create(
        CLAIMS, {"metadata": {"name": name, "annotations": intent}, "spec": spec}
    )
    claim = await world.claimed(name)
    assert claim.status is not None
    assert claim.status.instance_id != "precious"
    await world.client.delete(CLAIMS, name)
    await world.gone(CLAIMS, name)
    assert (await world.client.get(PODS, "precious")).metadata.uid == other.metadata.uid


# A second Claim object for the same tenant (tenancy/claims/applying/rivals.py)


async def test_the_second_claim_of_a_tenant_is_an_error_that_names_the_first(world: World) -> None:
    """Under another name or the canonical one: whoever is second has nothing."""
    await world.ready_workload()
    first = await world.claimed(await world.claim("alice"))
    second = await world.claimed(await world.claim("alice", name="mine"), "Error")
    assert second.status is not None
    assert first.metadata.name in second.status.detail
    await world.claimed(await world.claim("bob", name="his"))
    late = await world.claimed(await world.claim("bob"), "Error")
    assert late.status is not None
    assert "his" in late.status.detail
    assert len(await world.pods(tenant="alice")) == len(await world.pods(tenant="bob")) == 1


async def test_the_second_gets_its_turn_when_the_first_is_gone(world: World) -> None:
    """Nobody has to touch it."""
    await world.ready_workload()
    first = await world.claimed(await world.claim("alice"))
    await world.claimed(await world.claim("alice", name="mine"), "Error")
    await world.client.delete(CLAIMS, first.metadata.name)
    await world.claimed("mine")
