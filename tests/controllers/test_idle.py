"""Idle deadlines are judged when they come; what follows waits behind what somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import SystemClock, rfc3339_micro
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.idle.verdict import ChangesSeen
from tests.controllers.operator_fixture import World, frozen, opened, started

IDLE = {"timeoutSeconds": 60}
WATCHED: dict[str, Any] = {
    "filesystem": {"overlayDirs": ["/data"]},
    "idle": {"timeoutSeconds": 60, "watchDirs": ["/data"]},
}
LATER = timedelta(seconds=61)


class Ahead(SystemClock):
    """The time, an hour or so from now."""

    def __init__(self, by: timedelta) -> None:
        super().__init__()
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


@asynccontextmanager
async def later(directory: Path, **workload: Any) -> AsyncIterator[tuple[World, Operator]]:
    """A claim of alice's, and an operator that sees it when its time is over, and does nothing."""
    async with opened(directory) as world:
        async with started(world.kubelet.manager, world.operator):
            await world.ready_workload(**workload)
            assert (await world.operator.acquirer.acquire("alice", "web")).phase == "Active"
        async with frozen(world.another_operator(clock=Ahead(LATER))) as operator:
            yield world, operator


def is_due(operator: Operator, tenant: str = "alice") -> bool:
    [key] = [k for k in operator.claim_informer.cache if k.name == names.claim_name(tenant, "web")]
    return operator.precedence.is_due(key)


async def annotate(world: World, **annotations: str) -> None:
    given = {f"{names.GROUP}/{name.replace('_', '-')}": text for name, text in annotations.items()}
    name = names.claim_name("alice", "web")
    await world.client.merge_patch(CLAIMS, name, {"metadata": {"annotations": given}})


async def test_a_deadline_is_judged_by_what_is_noted(tmp_path: Path) -> None:
    """Passed: due. New activity, a wish to go or a workload without a timeout: a pass as usual."""
    async with later(tmp_path / "data", idle=IDLE) as (world, operator):
        assert is_due(operator)
        assert not operator.precedence.is_due(Key(world.client.namespace, "nobody"))
        assert not is_due(world.operator)  # where it is not that late
        now = rfc3339_micro(operator.clock.now())
        await annotate(world, last_activity=now)
        async with frozen(world.another_operator(clock=Ahead(LATER))) as again:
            assert not is_due(again)
        await annotate(world, last_activity="2020-01-01T00:00:00Z", release=now)
        async with frozen(world.another_operator(clock=Ahead(LATER))) as again:
            assert not is_due(again)


async def test_an_instance_that_was_told_to_stop_is_not_put_off(tmp_path: Path) -> None:
    """Its grace is all the time there is to save what is in it."""
    async with later(tmp_path / "data", idle=IDLE) as (world, operator):
        assert is_due(operator)
        [pod] = await world.pods()
        await world.client.delete(PODS, pod.metadata.name, grace=60)
        async with frozen(world.another_operator(clock=Ahead(LATER))) as again:
            assert not is_due(again)


async def test_a_workload_without_a_timeout_has_no_deadline(tmp_path: Path) -> None:
    """Its claims are never due."""
    async with later(tmp_path / "data") as (_, operator):
        assert not is_due(operator)


async def test_an_answer_about_watched_directories_is_used_at_once(tmp_path: Path) -> None:
    """The question waits its turn, the answer does not: it grows old, and would be asked again."""
    async with later(tmp_path / "data", **WATCHED) as (world, operator):
        assert is_due(operator)
        key = Key(world.client.namespace, names.claim_name("alice", "web"))
        asked = operator.clock.now()
        operator.memory.changes.note(key, "uid", ChangesSeen(asked, complete=True))
        assert not is_due(operator)


@pytest.mark.slow
async def test_many_that_are_idle_do_not_hold_up_a_claim(tmp_path: Path) -> None:
    """All are released; who claims by kubectl meanwhile does not wait for the last of them."""
    tenants = [f"tenant-{number}" for number in range(60)]
    async with opened(tmp_path / "data") as world:
        async with started(world.kubelet.manager, world.operator):
            await world.ready_workload(idle=IDLE)
            acquire = world.operator.acquirer.acquire
            await asyncio.gather(*(acquire(tenant, "web") for tenant in tenants))
        operator = world.another_operator(clock=Ahead(LATER))
        ended: list[str] = []

        def changed(change: Any) -> None:
            if change.new is not None and change.new.status is not None:
                ended.append(f"{change.new.spec.tenant_id} {change.new.status.phase}")

        async with started(world.kubelet.manager, operator):
            operator.claim_informer.subscribe(changed)
            name = await world.claim("late")
            await world.claimed(name)

            async def all_gone() -> bool:
                return all(f"{tenant} Released" in ended for tenant in tenants)

            await world.settles(all_gone, timeout=60)
        before = ended[: ended.index("late Active")]
        assert sum(one.endswith("Released") for one in before) < len(tenants)
