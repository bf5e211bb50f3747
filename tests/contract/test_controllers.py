"""A controller on an informer, in both worlds: it hears, survives restarts, and hands over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from boilerhouse.core.clock import SystemClock, new_rng
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.leader import Elector, LeaseTiming
from boilerhouse.platform.kube.resources import CONFIG_MAPS, Key
from boilerhouse.platform.kube.wire import Transport
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.manager import Manager
from boilerhouse.platform.loop.recorder import Recorder
from tests.api_fixture import World
from tests.contract.driver import Api

QUICK = Timing(watch=5, margin=2, first_delay=0.05, longest_delay=0.5)
HANDOVER = LeaseTiming(duration=3, renew_within=2, retry=0.3)


@dataclass
class Operator:
    """Copies `data.wish` of every ConfigMap into its annotation `granted`."""

    client: Client
    elector: Elector | None = None
    passes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.informer: Informer[Any] = Informer(self.client, CONFIG_MAPS, timing=QUICK)
        self.controller: Controller[Key, str, str] = Controller(
            "grants",
            read=self._read,
            decide=lambda wish: wish.upper(),
            apply=self._apply,
            keys=lambda: list(self.informer.cache),
            clock=SystemClock(),
            rng=new_rng(),
            recorder=Recorder(),
            leader_only=True,
        )
        self.informer.subscribe(self._changed)
        self.manager = Manager(
            sources=[self.informer],
            controllers=[self.controller],
            elector=self.elector,
            grace=timedelta(seconds=5),
        )

    def _changed(self, change: Change[Any]) -> None:
        self.controller.queue.add(change.key)

    async def _read(self, key: Key) -> str | None:
        item = self.informer.cache.get(key)
        if item is None or item.metadata.annotations.get("granted"):
            return None
        return str(item.metadata.labels.get("wish", "")) or None

    async def _apply(self, key: Key, wish: str, plan: str) -> None:
        self.passes.append(key.name)
        patch = {"metadata": {"annotations": {"granted": plan}}}
        written = await self.client.merge_patch(CONFIG_MAPS, key.name, patch)
        self.informer.observe(written)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Event]:
        stopping = asyncio.Event()
        task = asyncio.create_task(self.manager.run(stopping))
        try:
            yield stopping
        finally:
            stopping.set()
            await asyncio.wait_for(task, 20)


async def wish(api: Api, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"wish": "tea"}}}
    (await api.create("configmaps", body)).ok()


async def granted(client: Client, name: str) -> bool:
    item = await client.get(CONFIG_MAPS, name)
    return item.metadata.annotations.get("granted") == "TEA"


async def test_what_was_there_and_what_comes_later_is_reconciled(
    api: Api, transport: Transport
) -> None:
    """Existing objects get a pass at the start, new ones by their event."""
    client = Client(transport, api.namespace)
    await wish(api, "before")
    operator = Operator(client)
    async with operator.running():
        await api.until(lambda: granted(client, "before"))
        await wish(api, "after")
        await api.until(lambda: granted(client, "after"))
        assert operator.manager.unready() == []
    assert sorted(operator.passes) == ["after", "before"]


async def test_a_controller_survives_the_restart_of_its_api_server(
    world: World, api: Api, transport: Transport
) -> None:
    """After a hard restart it hears of changes again, without help and without repeating itself."""
    client = Client(transport, api.namespace)
    operator = Operator(client)
    async with operator.running():
        await wish(api, "one")
        await api.until(lambda: granted(client, "one"))
        await world.restart()
        await wish(api, "two")
        await api.until(lambda: granted(client, "two"))
        await api.until(lambda: _true(operator.manager.unhealthy() == []))
    assert operator.passes == ["one", "two"]


async def test_leadership_is_handed_over_at_once_on_an_orderly_stop(
    api: Api, transport: Transport
) -> None:
    """Two replicas, one works; when it stops the other takes over before the lease runs out."""
    client = Client(transport, api.namespace)
    slow = LeaseTiming(duration=60, renew_within=40, retry=0.3)
    first = Operator(client, Elector(client, "grants", "first", timing=slow))
    second = Operator(client, Elector(client, "grants", "second", timing=slow))
    async with first.running() as stop_first:
        await wish(api, "one")
        await api.until(lambda: granted(client, "one"))
        async with second.running():
            await wish(api, "two")
            await api.until(lambda: granted(client, "two"))
            assert second.passes == []
            stop_first.set()
            await wish(api, "three")
            await api.until(lambda: granted(client, "three"))
    assert (first.passes, second.passes) == (["one", "two"], ["three"])


@pytest.mark.slow
async def test_a_leader_that_died_is_replaced_when_its_lease_has_run_out(
    api: Api, transport: Transport
) -> None:
    """A lease nobody renews is taken, by what was observed and not by anybody's clock."""
    client = Client(transport, api.namespace)
    stale = {
        "metadata": {"name": "grants"},
        "spec": {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 2,
            "renewTime": "2999-01-01T00:00:00.000000Z",
        },
    }
    (await api.create("leases", stale)).ok()
    operator = Operator(client, Elector(client, "grants", "alive", timing=HANDOVER))
    async with operator.running():
        await wish(api, "one")
        await api.until(lambda: granted(client, "one"))
    assert operator.passes == ["one"]


async def _true(value: bool) -> bool:
    return value
