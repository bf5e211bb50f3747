"""Many releases at once, beside claims: they take turns, and none of them waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.claims.seen import SavedSeen
from tests.controllers.operator_fixture import World, opened, started
from tests.unit.edge.api.files import Files

pytestmark = pytest.mark.slow

KEPT: dict[str, Any] = {"filesystem": {"overlayDirs": ["/data"]}}
TENANTS = ("ada", "bob", "cyd", "dan")


@dataclass
class Slow(Files):
    """Files that are saved when they are let, and whose in which order."""

    order: list[str] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    most: int = 0
    under_way: int = 0

    async def save(self, pod: str, uid: str, **order: Any) -> SavedSeen:
        self.order.append(order["tenant"])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.may_end.wait()
            return await super().save(pod, uid, **order)
        finally:
            self.under_way -= 1


@asynccontextmanager
async def world_with(directory: Path, files: Files, **options: Any) -> AsyncIterator[World]:
    """A world whose tenants keep files, each with its instance."""
    async with opened(directory) as world:
        world.operator = world.another_operator(snapshots=files, **options)
        async with started(world.kubelet.manager, world.operator):
            for informer in world.operator.informers:
                await informer.wait_synced()
            await world.ready_workload(**KEPT)
            for tenant in TENANTS:
                await world.operator.acquirer.acquire(tenant, "web")
            yield world


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  there is no event for it
            await asyncio.sleep(0.01)


async def says(world: World, tenant: str, why: str) -> None:
    """Wait until the claim's newest pass waits for that reason."""
    key = Key(world.client.namespace, names.claim_name(tenant, "web"))
    passes = world.operator.recorder.passes
    await until(lambda: why in str([entry.plan for entry in passes("claims", key)][-1:]))


async def test_saves_take_turns_and_say_so(tmp_path: Path) -> None:
    """Of four releases two are saved at once; the others are Releasing, and tell what they wait
    for."""
    files = Slow()
    async with world_with(tmp_path / "data", files, saves=2) as world:
        release = world.operator.releaser.release
        going = [asyncio.create_task(release(tenant, "web")) for tenant in TENANTS]
        await until(lambda: files.under_way == 2)
        for tenant in set(TENANTS) - set(files.order):
            await says(world, tenant, "the files of others are saved first")
        files.may_end.set()
        assert {answer.phase for answer in await asyncio.gather(*going)} == {"Released"}
        assert files.most == 2
        assert await world.pods() == []


async def test_who_has_only_its_grace_is_saved_next(tmp_path: Path) -> None:
    """An instance that somebody else told to stop goes before those that came earlier."""
    files = Slow()
    async with world_with(tmp_path / "data", files, saves=1) as world:
        world.kubelet.stops = False
        release = world.operator.releaser.release
        going = []
        for tenant in TENANTS[:3]:
            going.append(asyncio.create_task(release(tenant, "web")))
            await until(lambda: files.order == ["ada"])
        for tenant in ("bob", "cyd"):
            await says(world, tenant, "the files of others are saved first")
        assert files.order == ["ada"]
        [pod] = await world.pods(tenant="dan")
        await world.client.delete(PODS, pod.metadata.name, grace=60)
        await says(world, "dan", "the files of others are saved first")
        [third] = await world.pods(tenant="cyd")
        await world.client.delete(PODS, third.metadata.name, grace=60)
        await world.until(PODS, third.metadata.name, lambda pod: pod.metadata.deletion_timestamp)
        await asyncio.sleep(0.1)  # the operator hears of it by a watch of its own
        world.kubelet.stops = True
        files.may_end.set()
        await asyncio.gather(*going)
        await world.gone(PODS, pod.metadata.name)
        assert files.order[0] == "ada"
        assert set(files.order[1:3]) == {"cyd", "dan"}
        assert files.order[3:] == ["bob"]


async def test_releases_go_on_under_a_stream_of_claims(tmp_path: Path) -> None:
    """While claims never pause, every release comes to its end."""
    gate = Gate(longest=0.1)
    async with world_with(tmp_path / "data", Files(), gate=gate) as world:
        ended = asyncio.Event()

        async def claims() -> None:
            while not ended.is_set():
                with gate.foreground(), gate.foreground():
                    await asyncio.sleep(0.01)

        streams = [asyncio.create_task(claims()) for _ in range(3)]
        try:
            release = world.operator.releaser.release
            answers = await asyncio.gather(*(release(tenant, "web") for tenant in TENANTS))
        finally:
            ended.set()
            await asyncio.gather(*streams)
        assert {answer.phase for answer in answers} == {"Released"}


async def test_a_claim_does_not_hold_up_the_release_that_it_waits_for(tmp_path: Path) -> None:
    """Who claims again in the middle of a release is not asked to give way to itself."""
    gate = Gate(longest=60)
    files = Slow()
    async with world_with(tmp_path / "data", files, gate=gate) as world:
        name = names.claim_name("ada", "web")
        await world.client.delete(CLAIMS, name)
        await world.claimed(name, "Releasing")
        with gate.foreground(Key(world.client.namespace, name)):
            files.may_end.set()
            async with asyncio.timeout(20):
                again = await world.operator.acquirer.acquire(
                    "ada", "web", wait=timedelta(seconds=20)
                )
        assert again.usable
        assert again.source == "cold+data"


async def test_a_stopped_instance_is_saved_while_claims_never_pause(tmp_path: Path) -> None:
    """Its grace is all the time there is: its passes give way to nobody."""
    gate = Gate(longest=60)
    files = Files()
    async with world_with(tmp_path / "data", files, gate=gate) as world:
        world.kubelet.stops = False
        [pod] = await world.pods(tenant="ada")
        with gate.foreground():
            await world.client.delete(PODS, pod.metadata.name, grace=30)
            await until(lambda: ("ada", "web") in files.stored)
        world.kubelet.stops = True
