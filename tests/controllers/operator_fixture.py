"""An operator on an embedded API server, with a kubelet that only pretends.

Store ─► ApiServer ─► Client ─┬─► Operator (the production one)
                              └─► FakeKubelet: gives every Pod a node, an address and readiness

What a Pod does is a function that tests may change: nothing here runs a process.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, SystemClock, new_rng, rfc3339
from boilerhouse.core.errors import Retry
from boilerhouse.core.names import NAMESPACE
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.operator.declaration import Declaration, Loop, sources
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Object, Pod
from boilerhouse.platform.kube.resources import NODES, PODS, Key, Resource
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.manager import Manager
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.embedded_fixture import start_server
from tests.unit.edge.api.files import Files

Body = dict[str, Any]
NODE = "node-1"

SPEC: Body = {
    "version": "1",
    "image": {"ref": "host"},
    "resources": {"vcpus": 0.5, "memoryMb": 64, "diskGb": 1},
    "network": {"expose": [{"guest": 8080}]},
    "entrypoint": {"cmd": "/bin/serve", "args": ["8080"]},
}


def running(pod: Pod, ip: str, now: str) -> Body:
    """The status of a Pod that is up and ready."""
    containers = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "x",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod.spec.containers
    ]
    return {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": now,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
            {"type": "Ready", "status": "True", "lastTransitionTime": now},
        ],
        "containerStatuses": containers,
    }


Behaviour = Callable[[Pod, str, str], Body | None]


class FakeKubelet:
    """Makes Pods what `behaviour` says; None leaves a Pod as it is."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.behaviour: Behaviour = running
        self.stops = True  # whether Pods that are told to stop do so at once
        self._client = client
        self._clock = clock
        self._addresses = itertools.count(1)
        self._given: dict[str, str] = {}
        self.pods: Informer[Pod] = Informer(client, PODS)
        self.controller: Controller[Key, Pod, Body | None] = Controller(
            "kubelet",
            read=self._read,
            decide=lambda pod: None,
            apply=self._apply,
            keys=lambda: list(self.pods.cache),
            clock=clock,
            rng=new_rng(1),
            recorder=Recorder(),
        )
        self.pods.subscribe(lambda change: self.controller.queue.add(change.key))
        self.manager = Manager(sources=[self.pods], controllers=[self.controller])

    async def _read(self, key: Key) -> Pod | None:
        return self.pods.cache.get(key)

    async def _apply(self, key: Key, pod: Pod, plan: Body | None) -> None:
        meta = pod.metadata
        try:
            if meta.deletion_timestamp is not None:
                if not self.stops:
                    return
                await self._client.delete(PODS, meta.name, uid=meta.uid, grace=0)
                return
            if not pod.spec.node_name:
                body = {"metadata": {"name": meta.name}, "target": {"kind": "Node", "name": NODE}}
                path = PODS.path(meta.namespace, meta.name, "binding")
                await self._client.raw("POST", path, body)
                return
            await self.refresh(pod)
        except NotFound:
            return

    async def refresh(self, pod: Pod) -> None:
        """Write what the Pod does now, if it is not what its status says."""
        number = self._given.setdefault(pod.metadata.uid, str(next(self._addresses)))
        now = rfc3339(self._clock.now())
        wanted = self.behaviour(pod, f"10.0.{int(number) // 250}.{int(number) % 250 + 1}", now)
        if wanted is None or (
            pod.ready and wanted.get("phase") == "Running" and wanted_ready(wanted)
        ):
            return
        await self._client.merge_patch(
            PODS, pod.metadata.name, {"status": wanted}, subresource="status"
        )

    async def behave(self, behaviour: Behaviour) -> None:
        """Behave otherwise from now on, old Pods included."""
        self.behaviour = behaviour
        for pod in (await self._client.list(PODS)).items:
            if pod.spec.node_name:
                await self.refresh(pod)


def wanted_ready(status: Body) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])


@dataclass
class FakeImages:
    """An image store whose content tests change."""

    absent: set[str] = field(default_factory=set)

    async def missing(self, reference: str) -> str:
        return f"image {reference} is not in the store" if reference in self.absent else ""


@dataclass
class FakeIdentities:
    """Takes down what was delivered to whom."""

    told: list[tuple[str, Identity]] = field(default_factory=list)
    unreachable: bool = False

    async def deliver(self, pod: str, uid: str, identity: Identity) -> None:
        if self.unreachable:
            raise Retry("the agent does not answer")
        self.told.append((pod, identity))


class World:
    """Everything a story needs, and the verbs to tell it."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.images = FakeImages()
        self.identities = FakeIdentities()
        self.files = Files()
        self.kubelet = FakeKubelet(client, clock)
        self.operator = self.another_operator()

    def another_operator(self, **options: Any) -> Operator:
        given = {"snapshots": self.files, "clock": self.clock, "rng": new_rng(7), **options}
        return Operator(self.client, images=self.images, identities=self.identities, **given)

    async def workload(self, name: str = "web", **changes: Any) -> None:
        await self.client.create(WORKLOADS, {"metadata": {"name": name}, "spec": SPEC | changes})

    async def ready_workload(self, name: str = "web", **changes: Any) -> None:
        await self.workload(name, **changes)
        await self.until(WORKLOADS, name, lambda w: w.status.get("phase") == "Ready")

    async def pool(
        self, name: str = "warm", workload: str = "web", size: int = 2, fill: int = 2
    ) -> None:
        spec = {"workloadRef": workload, "size": size, "maxFillConcurrency": fill}
        await self.client.create(POOLS, {"metadata": {"name": name}, "spec": spec})

    async def full_pool(self, name: str = "warm", workload: str = "web", size: int = 2) -> None:
        await self.pool(name, workload, size, fill=max(2, size))
        await self.until(POOLS, name, lambda p: p.status is not None and p.status.ready == size)

    async def claim(self, tenant: str, workload: str = "web", name: str = "") -> str:
        """Apply a Claim as kubectl would; return its name."""
        name = name or names.claim_name(tenant, workload)
        spec = {"tenantId": tenant, "workloadRef": workload}
        await self.client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
        return name

    async def claimed(self, name: str, phase: str = "Active") -> Claim:
        found: Claim = await self.until(
            CLAIMS, name, lambda c: c.status is not None and c.status.phase == phase
        )
        return found

    async def pods(self, **labels: str) -> list[Pod]:
        wanted = {f"{names.GROUP}/{key}": value for key, value in labels.items()}
        return (await self.client.list(PODS, labels={names.MANAGED: "true", **wanted})).items

    async def until(
        self, resource: Resource[Any], name: str, holds: Callable[[Any], bool], timeout: float = 20
    ) -> Any:
        """Watch an object until `holds`; return it as it then was."""
        async with asyncio.timeout(timeout):
            while True:
                async with self.client.watch(
                    resource,
                    fields=f"metadata.name={name}",
                    send_initial_events=True,
                    timeout_seconds=30,
                    read_timeout=40,
                ) as events:
                    async for event in events:
                        found: Object | None = event.object
                        changed = event.type in ("ADDED", "MODIFIED")
                        if changed and found is not None and holds(found):
                            return found

    async def gone(self, resource: Resource[Any], name: str, timeout: float = 20) -> None:
        """Wait until an object is not there."""
        async with asyncio.timeout(timeout):
            while True:
                try:
                    found = await self.client.get(resource, name)
                except NotFound:
                    return
                async with self.client.watch(
                    resource,
                    fields=f"metadata.name={name}",
                    resource_version=found.metadata.resource_version,
                    timeout_seconds=5,
                    read_timeout=10,
                ) as events:
                    async for event in events:
                        if event.type == "DELETED":
                            break

    async def settles(self, holds: Callable[[], Any], timeout: float = 20) -> None:
        """Wait until a question about the Pods is answered with yes, asked after each change."""
        async with asyncio.timeout(timeout):
            while not await holds():
                await self._next_change()

    async def _next_change(self) -> None:
        changed = asyncio.Event()
        stop = self.kubelet.pods.subscribe(lambda change: changed.set())
        changed.clear()  # subscribing tells of what is there already
        try:
            async with asyncio.timeout(0.2):  # what was asked may hang on other objects, too
                await changed.wait()
        except TimeoutError:
            return
        finally:
            stop()


@asynccontextmanager
async def opened(directory: Path, clock: Clock | None = None) -> AsyncIterator[World]:
    """Open a world without running anything in it."""
    clock = clock or SystemClock()
    store = await Store.open(directory)
    server = await start_server(store, clock)
    try:
        transport = InProcess(server)
        client = Client(transport, NAMESPACE)
        world = World(client, clock)
        await make_node(client)
        yield world
    finally:
        await server.stop()
        await store.close()


async def make_node(client: Client, name: str = NODE) -> None:
    await client.create(NODES, {"metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    await client.merge_patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")


class Kept:
    """Controllers by themselves, as they are declared, with all that they watch."""

    def __init__(self, clock: Clock, *declared: Declaration[Any, Any]) -> None:
        loop = Loop(clock, new_rng(1), Recorder(), Gate())
        self.declared = declared
        self.controllers = [loop.controller(one) for one in declared]
        self.manager = Manager(sources=sources(declared), controllers=self.controllers)


@asynccontextmanager
async def started(*managers: Any) -> AsyncIterator[asyncio.Event]:
    """Run managers or operators until the context ends."""
    stopping = asyncio.Event()
    tasks = [asyncio.create_task(manager.run(stopping)) for manager in managers]
    try:
        yield stopping
    finally:
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 20)


@asynccontextmanager
async def running_world(directory: Path) -> AsyncIterator[World]:
    """Open a world with kubelet and operator at work."""
    async with opened(directory) as world, started(world.kubelet.manager, world.operator):
        for informer in (world.operator.claim_informer, world.operator.pod_informer):
            await informer.wait_synced()
        yield world


@asynccontextmanager
async def frozen(operator: Operator) -> AsyncIterator[Operator]:
    """Let an operator see the world as it is now, and never hear of it again."""
    async with AsyncExitStack() as stack:
        for informer in operator.informers:
            await stack.enter_async_context(informer.running())
            await informer.wait_synced()
    yield operator
