"""The disruption budget over claimed instances: built, decided upon, kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from boilerhouse.core import names
from boilerhouse.core.clock import rng
from boilerhouse.core.errors import Retry
from boilerhouse.disruptions.build import NAME, budget
from boilerhouse.disruptions.decide import (
    BudgetSeen,
    Create,
    Delete,
    Replace,
    Seen,
    Wait,
    decide,
)
from boilerhouse.disruptions.keep import BUDGETS, LOOK_AGAIN, BudgetKeeper
from boilerhouse.kube.resources import PODS, Key
from boilerhouse.kube.status import TooManyRequests
from boilerhouse.loop.manager import Manager
from boilerhouse.loop.recorder import Recorder
from tests.controllers.world import World, opened, running_world, started

EVERY = timedelta(seconds=0.2)


def test_every_claimed_instance_is_kept() -> None:
    """By the label that only claimed Pods have, and by number: nobody stands behind bare Pods."""
    assert budget(3)["spec"] == {
        "minAvailable": 3,
        "selector": {
            "matchLabels": {names.MANAGED: "true"},
            "matchExpressions": [{"key": names.TENANT, "operator": "Exists"}],
        },
    }


def there(claimed: int, **changes: Any) -> BudgetSeen:
    return BudgetSeen("u", "1", {**budget(claimed)["spec"], **changes})


def test_there_is_a_budget_while_something_is_claimed() -> None:
    """Made with the first claim, removed after the last, and otherwise left alone."""
    assert decide(Seen(0, None)) == Wait()
    assert decide(Seen(1, None)) == Create(1)
    assert decide(Seen(2, there(2))) == Wait()
    assert decide(Seen(0, there(2))) == Delete("u", "1")


def test_the_number_follows_and_changes_of_others_do_not_stay() -> None:
    """More, fewer, or a budget that somebody has opened up."""
    assert decide(Seen(3, there(2))) == Replace("u", "1", 3)
    assert decide(Seen(1, there(2))) == Replace("u", "1", 1)
    opened_up = there(2, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert decide(Seen(2, opened_up)) == Replace("u", "1", 2)
    assert decide(Seen(2, there(2, selector={}))) == Replace("u", "1", 2)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Keep log events instead of printing them."""
    with capture_logs() as captured:
        yield captured


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_world(tmp_path / "data") as found:
        yield found


def keeper_of(world: World, every: timedelta = EVERY) -> BudgetKeeper:
    return BudgetKeeper(
        world.client,
        pods=world.operator.pod_informer,
        clock=world.clock,
        chance=rng(1),
        recorder=Recorder(),
        every=every,
    )


def says(number: int) -> Any:
    return lambda found: found.spec.get("minAvailable") == number


async def evict(world: World, pod: str) -> None:
    body = {"metadata": {"name": pod}}
    await world.client.raw("POST", PODS.path(world.client.namespace, pod, "eviction"), body)


async def test_claimed_instances_are_not_evicted(world: World) -> None:
    """Warm ones are; the budget comes back as it was, and goes with the last claim."""
    keeper = keeper_of(world)
    await world.ready_workload()
    await world.full_pool(size=1)
    manager = Manager(informers=[keeper.informer], controllers=[keeper.controller])
    async with started(manager):
        first = await world.claimed(await world.claim("alice"))
        found = await world.until(BUDGETS, NAME, says(1))
        assert found.spec == budget(1)["spec"]  # as the server hands it back: nothing to restore
        await world.claimed(await world.claim("bob"))
        await world.until(BUDGETS, NAME, says(2))

        assert first.status is not None
        with pytest.raises(TooManyRequests) as refused:
            await evict(world, first.status.instance_id)
        assert [cause.reason for cause in refused.value.causes] == ["DisruptionBudget"]
        warm, *_ = await world.pods(pool="warm")
        await evict(world, warm.metadata.name)
        await world.gone(PODS, warm.metadata.name)

        await world.client.merge_patch(BUDGETS, NAME, {"spec": {"minAvailable": 0}})
        await world.until(BUDGETS, NAME, says(2))
        await world.client.delete(BUDGETS, NAME)
        await world.until(BUDGETS, NAME, lambda b: b.metadata.uid != found.metadata.uid)

        await world.operator.releaser.release("alice", "web")
        await world.until(BUDGETS, NAME, says(1))
        await world.operator.releaser.release("bob", "web")
        await world.gone(BUDGETS, NAME)


async def test_two_keepers_do_not_fight(world: World) -> None:
    """Whoever comes second finds it done, or looks again a moment later; others' names stay."""
    one, two = keeper_of(world), keeper_of(world)
    key = Key(world.client.namespace, NAME)
    await world.ready_workload()
    await world.claimed(await world.claim("alice"))
    seen = await one.read(key)
    assert seen is not None and seen.claimed == 1
    assert await one.apply(key, seen, decide(seen)) == LOOK_AGAIN
    assert await two.apply(key, seen, decide(seen)) == EVERY
    now = await two.read(key)
    assert now is not None and decide(now) == Wait()
    assert await two.apply(key, now, Wait()) == LOOK_AGAIN
    assert now.there is not None
    stale = Replace(now.there.uid, "1", 5)
    assert await two.apply(key, now, stale) == EVERY
    gone = Delete(now.there.uid, now.there.version)
    assert await one.apply(key, now, gone) == await two.apply(key, now, gone) == LOOK_AGAIN
    assert await one.read(Key(world.client.namespace, "somebody-elses")) is None


async def test_nothing_is_counted_before_the_pods_are_known(tmp_path: Path) -> None:
    """A process that has just started does not take the others' budget away."""
    async with opened(tmp_path / "data") as world:
        await world.client.create(BUDGETS, budget(7))
        keeper = keeper_of(world)
        with pytest.raises(Retry):
            await keeper.read(Key(world.client.namespace, NAME))


async def test_many_claims_are_one_write(world: World, quiet: list[dict[str, Any]]) -> None:
    """Twenty tenants at once: the number is right, and was not written twenty times."""
    keeper = keeper_of(world, timedelta(seconds=1))
    await world.ready_workload()
    await world.full_pool(size=20)
    manager = Manager(informers=[keeper.informer], controllers=[keeper.controller])
    async with started(manager):
        await keeper.informer.wait_synced()
        acquire = world.operator.acquirer.acquire
        await asyncio.gather(*(acquire(f"tenant-{n}", "web") for n in range(20)))
        await world.until(BUDGETS, NAME, says(20))
    writes = [line for line in quiet if str(line["event"]).startswith("budget.")]
    assert len(writes) <= 5
