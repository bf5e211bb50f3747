"""A cordoned node is emptied of tenants, a few at a time, on an embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.resources import EVENTS, NODES
from boilerhouse.tenancy.claims.model import Source
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.claims.reading.cordons import LEAVING_LIMIT
from boilerhouse.tenancy.claims.seen import SavedSeen
from tests.controllers.operator_fixture import NODE, World, opened, started
from tests.unit.edge.api.files import Files

pytestmark = pytest.mark.slow

KEPT: dict[str, Any] = {"filesystem": {"overlayDirs": ["/data"]}}
TENANTS = [f"tenant-{number}" for number in range(LEAVING_LIMIT + 2)]


@dataclass
class Gate(Files):
    """Files that are saved when the test lets them."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    most: int = 0

    async def save(self, pod: str, uid: str, **order: Any) -> SavedSeen:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.open.wait()
            return await super().save(pod, uid, **order)
        finally:
            self.waiting -= 1


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def full(tmp_path: Path, gate: Gate) -> AsyncIterator[World]:
    """A world in which every tenant has an instance with files on the only node."""
    async with opened(tmp_path / "data") as world:
        world.operator = world.another_operator(snapshots=gate)
        async with started(world.kubelet.manager, world.operator):
            for informer in world.operator.informers:
                await informer.wait_synced()
            await world.ready_workload(**KEPT)
            acquire = world.operator.acquirer.acquire
            await asyncio.gather(*(acquire(tenant, "web") for tenant in TENANTS))
            yield world


async def cordon(world: World, wanted: bool = True) -> None:
    await world.client.merge_patch(NODES, NODE, {"spec": {"unschedulable": wanted or None}})


async def phases(world: World) -> dict[str, str]:
    """Return each tenant's phase and detail."""
    found = (await world.client.list(CLAIMS)).items
    return {c.spec.tenant_id: f"{c.status.phase} {c.status.detail}" for c in found if c.status}


async def test_a_cordoned_node_is_emptied_at_a_bounded_pace(full: World, gate: Gate) -> None:
    """Everybody is hibernated, never more than a few at once; the claims stay, and say why."""
    await cordon(full)

    async def some_leave() -> bool:
        return gate.waiting == LEAVING_LIMIT

    await full.settles(some_leave)
    assert sum(told.startswith("Active") for told in (await phases(full)).values()) == 2
    gate.open.set()
    for tenant in TENANTS:
        await full.claimed(names.claim_name(tenant, "web"), "Released")
    assert set((await phases(full)).values()) == {f"Released the node {NODE} is cordoned"}
    assert gate.most == LEAVING_LIMIT
    assert set(gate.stored) == {(tenant, "web") for tenant in TENANTS}
    assert await full.pods() == []
    told = {event.reason for event in (await full.client.list(EVENTS)).items}
    assert "NodeCordoned" in told

    await cordon(full, False)
    back = await full.operator.acquirer.acquire(TENANTS[0], "web")
    assert (back.phase, back.source) == ("Active", Source.COLD_DATA)


async def test_uncordoned_nobody_else_leaves(full: World, gate: Gate) -> None:
    """What was begun is finished."""
    await cordon(full)

    async def some_leave() -> bool:
        return gate.waiting == LEAVING_LIMIT

    await full.settles(some_leave)
    await cordon(full, False)
    gate.open.set()

    async def they_left() -> bool:
        gone = [told for told in (await phases(full)).values() if told.startswith("Released")]
        return len(gone) == LEAVING_LIMIT

    await full.settles(they_left)
    stay = [tenant for tenant, told in (await phases(full)).items() if told.startswith("Active")]
    assert len(stay) == 2
    assert len(await full.pods()) == 2
