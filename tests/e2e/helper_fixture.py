"""Where stories about agent and helper are played: on one machine, and on a real node.

Stage ─► client, an instance with its agent, a helper kept by its keeper, the way to it
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from cluster.images import BUSYBOX

from boilerhouse.core.clock import SystemClock
from boilerhouse.node.helper.layout import POD, VOLUME_CLAIM
from boilerhouse.operator.keepers import helper
from boilerhouse.platform.kube import kinds
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import (
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.rpc.message import Handler
from boilerhouse.run.kubelet import kubelet_settings
from boilerhouse.run.product import Product
from boilerhouse.tenancy.instances import build
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.routes import Proxied
from boilerhouse.tenancy.workloads.model import WorkloadSpec
from tests.controllers.operator_fixture import Kept
from tests.embedded_fixture import open_world
from tests.waiting import until, until_found

_NUMBERS = itertools.count(1)
AGENT_TOKEN = "the-agents-token-that-no-tenant-may-see"
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", kinds.Bare, namespaced=False)


@dataclass
class Stage:
    """A cluster, seen by an operator."""

    client: Client
    route: Handler
    product_image: str
    tenant_image: str
    helper_settings: HelperSettings

    @property
    def helper(self) -> HelperClient:
        return HelperClient(self.client, self.route, Agents(self.client))

    async def instance(self, name: str, script: str) -> Pod:
        """Make a warm instance that runs a script, and wait until its tenant runs."""
        spec = msgspec.convert(workload(self.tenant_image, script), WorkloadSpec)
        pod = build.warm_pod(
            name, "shop", spec, Settings(product_image=self.product_image), pool="p", owner={}
        )
        del pod["metadata"]["ownerReferences"]  # there is no pool in this story
        await self.client.create(SECRETS, build.agent_secret(name, AGENT_TOKEN))
        await self.client.create(PODS, pod)
        return await self.until(name, lambda pod: pod.ready)

    async def until(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        seen = await until(
            self.client, PODS, name, lambda pod: pod is not None and holds(pod), timeout=60
        )
        assert seen[-1] is not None
        return seen[-1]

    async def sh(self, name: str, script: str) -> str:
        """Run a script as the tenant; what it wrote to either stream, whatever its exit code."""
        done = await self.client.pods.run(
            name, ["/bin/sh", "-c", f"exec 2>&1; {script}"], container=build.TENANT_CONTAINER
        )
        return done.stdout.decode().strip()

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keep a helper, and begin when it is ready."""
        manager = Kept(SystemClock(), helper(self.client, self.helper_settings)).manager
        stopping = asyncio.Event()
        running = asyncio.create_task(manager.run(stopping))
        try:
            await self.until(POD, lambda pod: pod.ready)
            yield
        finally:
            stopping.set()
            await running


def workload(image: str, script: str) -> dict[str, Any]:
    return {
        "version": "1",
        "image": {"ref": image},
        "resources": {"vcpus": 0.05, "memoryMb": 64, "diskGb": 1},
        "network": {"access": "none"},
        "filesystem": {"overlayDirs": ["/workspace"]},
        "entrypoint": {"cmd": "/bin/sh", "args": ["-c", script]},
    }


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Stage]:
    """One machine: agent and helper are tasks of this process."""
    product = Product()
    world = await open_world(directory, kubelet_settings(product.builtins()))
    client = Client(world.transport, "boilerhouse")
    try:
        yield Stage(client, product.route, "boilerhouse", "host", HelperSettings())
    finally:
        await world.close()
        await product.close()


@asynccontextmanager
async def on_node(kubeconfig: Path, image: str, volume: Path) -> AsyncIterator[Stage]:
    """A namespace of a real node, with a volume: there is nobody else who would make one."""
    client = Client(Http(from_kubeconfig(kubeconfig)), f"agent-{os.getpid()}-{next(_NUMBERS)}")
    await client.create(NAMESPACES, {"metadata": {"name": client.namespace}})
    await until_found(client, SERVICE_ACCOUNTS, "default")
    settings = HelperSettings(image=image, storage_class="")
    try:
        async with kept_volume(client, volume):
            yield Stage(client, Proxied(client), image, BUSYBOX, settings)
    finally:
        await client.delete(NAMESPACES, client.namespace)
        await client.close()


@asynccontextmanager
async def kept_volume(client: Client, directory: Path) -> AsyncIterator[None]:
    """Have a volume for the helper of the client's namespace."""
    body = await asyncio.to_thread(helper_volume, client.namespace, directory)
    await client.create(VOLUMES, body)
    try:
        yield
    finally:
        await client.delete(VOLUMES, body["metadata"]["name"])


def helper_volume(namespace: str, directory: Path) -> dict[str, Any]:
    """Make a directory, and return it as a volume that only a namespace's helper can have."""
    directory.mkdir()
    os.chown(directory, 65532, 65532)  # kubelet does not give a hostPath away
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{VOLUME_CLAIM}-{namespace}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "hostPath": {"path": str(directory)},
            "claimRef": {"namespace": namespace, "name": VOLUME_CLAIM},
        },
    }
