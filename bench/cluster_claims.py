"""Warm claims on a real kube-apiserver with etcd, measured against one PATCH of the same run.

Operator fills the pool ─► stops ─► an API replica claims, one by one, a PATCH between two claims

There is no node: Pods are bound and made Ready by us, in a kubelet's stead, before the measuring
begins. Refills belong to other processes on a cluster, so they are no part of it either. The
snapshot helper is there, in a process of its own: whether a tenant has files is a part of a claim.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from cluster.api import ApiWorld
from cluster.build import API, missing
from cluster.places import Places

from bench.figures import Figure, milliseconds, percentile
from boilerhouse.core.clock import SystemClock, rfc3339
from boilerhouse.node.helper.layout import SECRET
from boilerhouse.operator import catalogue
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream, Transport
from boilerhouse.platform.rpc.peer import Peer
from boilerhouse.tenancy.claims.model import Source
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.filing import HelperSnapshots
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from boilerhouse.tenancy.workloads.images import TrustedImages
from boilerhouse.tenancy.workloads.objects import WORKLOADS

WARM = 200
TIMES = 5  # a claim's median, in PATCHes
TIMES_WORST = 12
WRITES = 3  # on the Claim and the Pod, before the answer
NODE = "stand-in"
TOKEN = "the-token-of-the-helper"


def available() -> bool:
    """Whether the API server has been built; the bench does not build it."""
    return not missing(Places.user(), API)


class Counting:
    """A transport that counts writes to Claims and Pods."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.writes = 0

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        if request.method != "GET" and (
            "/boilerhouseclaims" in request.path or "/pods" in request.path
        ):
            self.writes += 1
        return await self._inner.request(request, timeout=timeout)

    def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request, read_timeout=read_timeout)

    def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AbstractAsyncContextManager[Socket]:
        return self._inner.socket(request, subprotocols)

    async def close(self) -> None:
        await self._inner.close()


class Unheard:
    """Identities that reach nobody: there are no agents here, and no answer waits for them."""

    async def deliver(self, pod: str, uid: str, identity: Identity) -> None:
        del pod, uid, identity


class StandIn:
    """Gives each new Pod a node, an address and readiness."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._addresses = itertools.count(1)
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None or pod.metadata.uid in self._known:
            return
        self._known.add(pod.metadata.uid)
        task = asyncio.create_task(self._run(pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pod: Pod) -> None:
        number = next(self._addresses)
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        now = rfc3339(SystemClock().now())
        meta = pod.metadata
        binding = {"metadata": {"name": meta.name}, "target": {"kind": "Node", "name": NODE}}
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            "containerStatuses": [
                {
                    "name": container.name,
                    "image": container.image,
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
                for container in pod.spec.containers
            ],
        }
        await self._client.raw("POST", PODS.path(meta.namespace, meta.name, "binding"), binding)
        await self._client.merge_patch(PODS, meta.name, {"status": status}, subresource="status")


@asynccontextmanager
async def helper(directory: Path) -> AsyncIterator[Peer]:
    """Run a helper that stores nothing of anybody; yield the way to it."""
    await asyncio.to_thread(directory.mkdir)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.helper_program", str(directory), TOKEN),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        port = int(await asyncio.wait_for(process.stdout.readline(), 60))
        yield Peer("127.0.0.1", port)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def running(operator: Operator) -> AsyncIterator[Operator]:
    stopping = asyncio.Event()
    task = asyncio.create_task(operator.run(stopping))
    try:
        for informer in operator.informers:
            await informer.wait_synced()
        yield operator
    finally:
        stopping.set()
        await task


async def figures(directory: Path) -> list[Figure]:
    # The operator is in this process, and its log would bury the table.
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    world = ApiWorld(directory / "world")
    await asyncio.to_thread(world.start)
    counting = Counting(Http(from_kubeconfig(world.kubeconfig)))
    client = Client(counting, "bench")
    try:
        await furnish(client)
        async with helper(directory / "snapshots") as route:
            async with running(operator_of(client, route, reconcile=True)) as operator:
                operator.pod_informer.subscribe(StandIn(client).changed)
                await fill(client)
            async with running(operator_of(client, route, reconcile=False)) as replica:
                return await claims(replica, counting)
    finally:
        await client.close()
        await asyncio.to_thread(world.stop)


def operator_of(client: Client, route: Peer, *, reconcile: bool) -> Operator:
    agents = Agents(client)
    files = HelperSnapshots(
        SnapshotClient(client, route, agents), HelperClient(client, route, agents)
    )
    return Operator(
        client,
        images=TrustedImages(),
        identities=Unheard(),
        snapshots=files,
        reconcile=reconcile,
    )


async def furnish(client: Client) -> None:
    """Make what a cluster with us installed has: kinds, a node, a namespace, a workload."""
    for crd in catalogue.crds():
        await client.raw("POST", CRDS.path(""), crd)
    for crd in catalogue.crds():
        await eventually(crd["metadata"]["name"], lambda name: established(client, name))
    await client.create(NODES, {"metadata": {"name": NODE}})
    now = rfc3339(SystemClock().now())
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now, "reason": "Bench"}
    await client.merge_patch(NODES, NODE, {"status": {"conditions": [ready]}}, subresource="status")
    await client.create(NAMESPACES, {"metadata": {"name": client.namespace}})
    await eventually("default", lambda name: exists(client, name))
    await client.create(CONFIG_MAPS, {"metadata": {"name": "yardstick"}})
    token = {"metadata": {"name": SECRET}, "stringData": {"token": TOKEN}}
    await client.create(SECRETS, token)


async def established(client: Client, name: str) -> bool:
    return (await client.get(CRDS, name)).established


async def exists(client: Client, name: str) -> bool:
    try:
        await client.get(SERVICE_ACCOUNTS, name)
    except NotFound:
        return False
    return True


async def fill(client: Client) -> None:
    """Have a workload with a full pool."""
    spec: dict[str, Any] = {
        "version": "1",
        "image": {"ref": "localhost/any:1"},
        "resources": {"vcpus": 0.01, "memoryMb": 8, "diskGb": 1},
        "filesystem": {"overlayDirs": ["/workspace"]},
    }
    await client.create(WORKLOADS, {"metadata": {"name": "warm"}, "spec": spec})
    pool = {"workloadRef": "warm", "size": WARM, "maxFillConcurrency": 16}
    await client.create(POOLS, {"metadata": {"name": "warm"}, "spec": pool})

    async def full(name: str) -> bool:
        status = (await client.get(POOLS, name)).status
        return status is not None and status.ready >= WARM

    await eventually("warm", full)


async def eventually(name: str, holds: Any) -> None:
    for _ in range(1200):
        if await holds(name):
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{name} is not as it should be")


async def claims(replica: Operator, counting: Counting) -> list[Figure]:
    took: list[float] = []
    raw: list[float] = []
    writes: list[int] = []
    for number in range(WARM):
        raw.append(await patch(replica.client, number))
        before = counting.writes
        began = time.perf_counter()
        got = await replica.acquirer.acquire(f"tenant-{number}", "warm")
        took.append(time.perf_counter() - began)
        writes.append(counting.writes - before)
        assert got.source == Source.POOL, f"claim {number}: {got.phase} from {got.source}"
    yardstick = statistics.median(raw)
    p50 = statistics.median(took) / yardstick
    p99 = percentile(took, 0.99) / yardstick
    return [
        Figure("yardstick: PATCH of a ConfigMap, kube-apiserver", milliseconds(raw), raw=(*raw,)),
        Figure("claim: pool, one by one, kube-apiserver", milliseconds(took), raw=(*took,)),
        Figure("  p50 in PATCHes", f"{p50:.1f} ×", f"≤ {TIMES} ×", p50 <= TIMES),
        Figure("  p99 in PATCHes", f"{p99:.1f} ×", f"≤ {TIMES_WORST} ×", p99 <= TIMES_WORST),
        Figure(
            "  writes on Claim and Pod before the answer",
            f"{statistics.mean(writes):.2f}, most {max(writes)}",
            f"≤ {WRITES}",
            max(writes) <= WRITES,
        ),
    ]


async def patch(client: Client, number: int) -> float:
    body = {"metadata": {"annotations": {"number": str(number)}}}
    began = time.perf_counter()
    await client.merge_patch(CONFIG_MAPS, "yardstick", body)
    return time.perf_counter() - began
