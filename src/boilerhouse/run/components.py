"""Operator, helper and REST API run together, on whichever Kubernetes API a client leads to.

Client ─► Operator ─► Services ─► http://…:3000

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
class Dependencies:
    """What the components need of the world it runs in."""

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
    dependencies: Dependencies, *, reconcile: bool = True, elector: Elector | None = None
) -> Operator:
    """Make the operator; without `reconcile` it only hears, and works when the API asks."""
    helper, stored = _helper(dependencies), _stored(dependencies)
    operator = Operator(
        dependencies.client,
        images=dependencies.images,
        identities=HelperIdentities(helper, dependencies.signing, dependencies.api_url),
        snapshots=HelperSnapshots(stored, helper),
        settings=dependencies.settings,
        platform=dependencies.platform,
        gate=dependencies.gate,
        elector=elector,
        reconcile=reconcile,
        helper=dependencies.helper if reconcile else None,
        saves=dependencies.saves,
        at_hand=dependencies.at_hand,
    )
    dependencies.agents.hear(operator.pod_informer)
    return operator


def _helper(dependencies: Dependencies) -> HelperClient:
    return HelperClient(dependencies.client, dependencies.route, dependencies.agents)


def _stored(dependencies: Dependencies) -> SnapshotClient:
    return SnapshotClient(dependencies.client, dependencies.route, dependencies.agents)


class Components:
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
async def running_components(
    dependencies: Dependencies,
    *,
    operator: Operator,
    bound: socket.socket | None = None,
    key: str = "",
) -> AsyncGenerator[Components]:
    """Run an operator, and on a bound socket the REST API, while the context lasts."""
    async with AsyncExitStack() as stack:
        running = Components()
        services = None
        if bound is not None:
            from boilerhouse.edge.api.services import Services

            services = Services.of(
                operator,
                signing=dependencies.signing,
                key=key,
                helper=_helper(dependencies),
                snapshots=_stored(dependencies),
                shelf=dependencies.shelf,
                commands=dependencies.commands,
                warnings=dependencies.warnings,
                awaits_helper=dependencies.at_hand,
            )
        stack.push_async_callback(running.stop)
        running.begin("operator", operator.run)
        if services is not None and bound is not None:
            from boilerhouse.edge.api.serving import serving

            await stack.enter_async_context(services.running())
            for informer in services.informers:
                await informer.wait_synced()
            await stack.enter_async_context(serving(services, bound))
        yield running
