"""The disruption budgets over claimed instances and their helper: built, decided upon, kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from boilerhouse.core import names
from boilerhouse.core.errors import Retry
from boilerhouse.core.upkeep import Create, Delete, Plan, Replace, Seen, There, Wait, decide
from boilerhouse.node.helper import layout
from boilerhouse.operator.declaration import Declaration
from boilerhouse.operator.keepers import budgets
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.keeper import LOOK_AGAIN
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import DISRUPTION_BUDGETS as BUDGETS
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.kube.status import TooManyRequests
from boilerhouse.platform.loop.manager import Manager
from boilerhouse.tenancy.disruptions.build import HELPER, INSTANCES, budget
from boilerhouse.tenancy.snapshots.build import HelperSettings, helper_pod
from tests.controllers.operator_fixture import Kept, World, opened, running_world, started

EVERY = timedelta(seconds=0.2)
Body = dict[str, Any]


def of(claimed: int) -> Body:
    body = budget(INSTANCES, claimed=claimed, beside_helper=0)
    assert body is not None
    return body


def test_every_claimed_instance_is_kept() -> None:
    """By the label that only claimed Pods have, and by number: nobody stands behind bare Pods."""
    assert of(3)["spec"] == {
        "minAvailable": 3,
        "selector": {
            "matchLabels": {names.MANAGED: "true"},
            "matchExpressions": [{"key": names.TENANT, "operator": "Exists"}],
        },
    }
    assert budget(INSTANCES, claimed=0, beside_helper=0) is None


def test_the_helper_is_kept_while_there_are_tenants_beside_it() -> None:
    """Those elsewhere can be saved by one that comes back elsewhere; its own label is meant."""
    body = budget(HELPER, claimed=5, beside_helper=2)
    assert body is not None and body["spec"]["minAvailable"] == 1
    labels = helper_pod(HelperSettings(), "uid")["metadata"]["labels"]
    assert body["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert budget(HELPER, claimed=5, beside_helper=0) is None


def there(claimed: int, **changes: Any) -> There:
    return There("u", "1", {**of(claimed)["spec"], **changes})


def test_there_is_a_budget_while_it_covers_somebody() -> None:
    """Made for the first, removed after the last, and otherwise left alone."""
    assert decide(Seen(None, None)) == Wait()
    assert decide(Seen(of(1), None)) == Create(of(1))
    assert decide(Seen(of(2), there(2))) == Wait()
    assert decide(Seen(None, there(2))) == Delete("u", "1")


def test_the_number_follows_and_changes_of_others_do_not_stay() -> None:
    """More, fewer, or a budget that somebody has opened up."""
    assert decide(Seen(of(3), there(2))) == Replace("u", "1", of(3))
    assert decide(Seen(of(1), there(2))) == Replace("u", "1", of(1))
    opened_up = there(2, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert decide(Seen(of(2), opened_up)) == Replace("u", "1", of(2))
    assert decide(Seen(of(2), there(2, selector={}))) == Replace("u", "1", of(2))


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[EventDict]]:
    """Keep log events instead of printing them."""
    with capture_logs() as captured:
        yield captured


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_world(tmp_path / "data") as found:
        yield found


def keeper_of(
    world: World, every: timedelta = EVERY
) -> tuple[Declaration[Seen, Plan], Informer[Pod]]:
    """Return a keeper, and the informer of the helper that somebody has to run."""
    helper: Informer[Pod] = Informer(world.client, PODS, fields=f"metadata.name={layout.POD}")
    return budgets(world.client, world.operator.pod_informer, helper, every=every), helper


@asynccontextmanager
async def keeping(world: World, every: timedelta = EVERY) -> AsyncIterator[None]:
    """Have a keeper at work."""
    declared, helper = keeper_of(world, every)
    own = declared.watches[0].informer
    controllers = Kept(world.clock, declared).controllers
    async with started(Manager(sources=[own, helper], controllers=controllers)):
        await own.wait_synced()
        yield


def says(number: int) -> Any:
    return lambda found: found.spec.get("minAvailable") == number


async def evict(world: World, pod: str) -> None:
    body = {"metadata": {"name": pod}}
    await world.client.raw("POST", PODS.path(world.client.namespace, pod, "eviction"), body)


@pytest.mark.slow
async def test_claimed_instances_are_not_evicted(world: World) -> None:
    """Warm ones are; the budget comes back as it was, and goes with the last claim."""
    await world.ready_workload()
    await world.full_pool(size=1)
    async with keeping(world):
        first = await world.claimed(await world.claim("alice"))
        found = await world.until(BUDGETS, INSTANCES, says(1))
        assert found.spec == of(1)["spec"]  # as the server hands it back: nothing to restore
        await world.claimed(await world.claim("bob"))
        await world.until(BUDGETS, INSTANCES, says(2))

        assert first.status is not None
        with pytest.raises(TooManyRequests) as refused:
            await evict(world, first.status.instance_id)
        assert [cause.reason for cause in refused.value.causes] == ["DisruptionBudget"]
        warm, *_ = await world.pods(pool="warm")
        await evict(world, warm.metadata.name)
        await world.gone(PODS, warm.metadata.name)

        await world.client.merge_patch(BUDGETS, INSTANCES, {"spec": {"minAvailable": 0}})
        await world.until(BUDGETS, INSTANCES, says(2))
        await world.client.delete(BUDGETS, INSTANCES)
        await world.until(BUDGETS, INSTANCES, lambda b: b.metadata.uid != found.metadata.uid)

        await world.operator.releaser.release("alice", "web")
        await world.until(BUDGETS, INSTANCES, says(1))
        await world.operator.releaser.release("bob", "web")
        await world.gone(BUDGETS, INSTANCES)


@pytest.mark.slow
async def test_the_helper_is_not_evicted_before_those_beside_it(world: World) -> None:
    """It may go when the last of them has: nobody on its node needs it any more."""
    await world.ready_workload()
    await world.client.create(PODS, helper_pod(HelperSettings(), "uid"))
    await world.until(PODS, layout.POD, lambda pod: pod.ready)
    async with keeping(world):
        await world.claimed(await world.claim("alice"))
        await world.until(BUDGETS, HELPER, says(1))
        with pytest.raises(TooManyRequests):
            await evict(world, layout.POD)
        await world.operator.releaser.release("alice", "web")
        await world.gone(BUDGETS, HELPER)
        await evict(world, layout.POD)
        await world.gone(PODS, layout.POD)


async def test_two_keepers_do_not_fight(world: World) -> None:
    """Whoever comes second finds it done, or looks again a moment later; others' names stay."""
    (one, helper), (two, other) = keeper_of(world), keeper_of(world)
    key = Key(world.client.namespace, INSTANCES)
    await world.ready_workload()
    await world.claimed(await world.claim("alice"))
    async with helper.running(), other.running():
        await helper.wait_synced()
        await other.wait_synced()
        seen = await one.read(key)
        assert seen == Seen(of(1), None)
        assert await one.apply(key, seen, decide(seen)) == LOOK_AGAIN
        assert await two.apply(key, seen, decide(seen)) == EVERY
        now = await two.read(key)
        assert now is not None and decide(now) == Wait()
        assert await two.apply(key, now, Wait()) == LOOK_AGAIN
        assert now.there is not None
        assert await two.apply(key, now, Replace(now.there.uid, "1", of(5))) == EVERY
        gone = Delete(now.there.uid, now.there.version)
        assert await one.apply(key, now, gone) == await two.apply(key, now, gone) == LOOK_AGAIN
        assert await one.read(Key(world.client.namespace, "somebody-elses")) is None


async def test_nothing_is_counted_before_the_pods_are_known(tmp_path: Path) -> None:
    """A process that has just started does not take the others' budget away."""
    async with opened(tmp_path / "data") as world:
        await world.client.create(BUDGETS, of(7))
        keeper, helper = keeper_of(world)
        async with helper.running():
            await helper.wait_synced()
            with pytest.raises(Retry):
                await keeper.read(Key(world.client.namespace, INSTANCES))


async def test_many_claims_are_one_write(world: World, logs: list[EventDict]) -> None:
    """Twenty tenants at once: the number is right, and was not written twenty times."""
    await world.ready_workload()
    await world.full_pool(size=20)
    async with keeping(world, timedelta(seconds=1)):
        acquire = world.operator.acquirer.acquire
        await asyncio.gather(*(acquire(f"tenant-{n}", "web") for n in range(20)))
        await world.until(BUDGETS, INSTANCES, says(20))
    writes = [line for line in logs if str(line["event"]).startswith("budget.")]
    assert len(writes) <= 5
