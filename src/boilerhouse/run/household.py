"""Operator, helper and REST API run together, on whichever Kubernetes API a client leads to.

Client ─► Operator ─► House ─► http://…:3000

`up` runs all of it on the embedded API, `operator` and `api` each their part on a cluster.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from boilerhouse.core.supervision import supervised
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.leader import Elector
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.platform.rpc.message import Handler
from boilerhouse.run.descriptors import COMMANDS
from boilerhouse.tenancy.claims.applying.jobs import SAVES
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.filing import HelperSnapshots
from boilerhouse.tenancy.snapshots.identities import HelperIdentities
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from boilerhouse.tenancy.workloads.images import Images, ImageShelf
from boilerhouse.tenancy.workloads.platform import Platform, TrustedPlatform


@dataclass(frozen=True, slots=True)
class Means:
    """What a household needs of the world it runs in."""

    client: Client
    images: Images
    route: Handler  # to the snapshot helper
    agents: Agents  # of the instances: found once for all that talk to them
    signing: bytes  # key of the claims' tokens
    api_url: str  # where instances find the API
    settings: Settings = field(default_factory=Settings)
    gate: Gate = field(default_factory=Gate)  # shared with all that shares the loop
    helper: HelperSettings = field(default_factory=HelperSettings)
    shelf: ImageShelf | None = None  # the images of one machine
    platform: Platform = field(default_factory=TrustedPlatform)
    saves: int = SAVES  # instances whose files are saved at a time
    # What is not as it should be although it runs, in sentences; for `health`.
    warnings: Callable[[], list[str]] = list
    commands: int = COMMANDS  # that may run in instances at a time
    at_hand: bool = False  # API server and helper are in this process


def operator_of(
    means: Means, *, reconcile: bool = True, elector: Elector | None = None
) -> Operator:
    """Make the operator; without `reconcile` it only hears, and works when the API asks."""
    helper, stored = _helper(means), _stored(means)
    operator = Operator(
        means.client,
        images=means.images,
        identities=HelperIdentities(helper, means.signing, means.api_url),
        snapshots=HelperSnapshots(stored, helper),
        settings=means.settings,
        platform=means.platform,
        gate=means.gate,
        elector=elector,
        reconcile=reconcile,
        helper=means.helper if reconcile else None,
        saves=means.saves,
        at_hand=means.at_hand,
    )
    means.agents.hear(operator.pod_informer)
    return operator


def _helper(means: Means) -> HelperClient:
    return HelperClient(means.client, means.route, means.agents)


def _stored(means: Means) -> SnapshotClient:
    return SnapshotClient(means.client, means.route, means.agents)


class Household:
    """What runs, each part until it is told to stop."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._parts: list[asyncio.Task[None]] = []

    def begin(self, name: str, part: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Run a part until it is told to stop; one that dies is started again."""
        stopping = self._stopping
        running = supervised(name, lambda: part(stopping), stopping)
        self._parts.append(asyncio.create_task(running, name=name))

    async def stop(self) -> None:
        """Let every part finish what it is at."""
        self._stopping.set()
        await asyncio.gather(*self._parts, return_exceptions=True)


@asynccontextmanager
async def household(
    means: Means,
    *,
    operator: Operator,
    bound: socket.socket | None = None,
    key: str = "",
) -> AsyncGenerator[Household]:
    """Run an operator, and on a bound socket the REST API, while the context lasts."""
    async with AsyncExitStack() as stack:
        running = Household()
        house = None
        if bound is not None:
            from boilerhouse.edge.api.house import House

            house = House.of(
                operator,
                signing=means.signing,
                key=key,
                helper=_helper(means),
                snapshots=_stored(means),
                shelf=means.shelf,
                commands=means.commands,
                warnings=means.warnings,
                awaits_helper=means.at_hand,
            )
        stack.push_async_callback(running.stop)
        running.begin("operator", operator.run)
        if house is not None and bound is not None:
            from boilerhouse.edge.api.serving import serving

            await stack.enter_async_context(house.running())
            for informer in house.informers:
                await informer.wait_synced()
            await stack.enter_async_context(serving(house, bound))
        yield running
