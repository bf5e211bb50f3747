"""An embedded API with an instance and a helper in it: agent and helper listen on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import AGENT_PORT, HELPER_PORT, PORTS
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.store.store import Store
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, SECRETS
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.tenancy.instances.build import agent_secret
from boilerhouse.tenancy.snapshots import build
from boilerhouse.tenancy.snapshots.build import HelperSettings
from tests.embedded_fixture import EmbeddedWorld
from tests.unit.node.agent.agent_fixture import SECRET, Rig, listening, running

HELPER_TOKEN = "the-token-of-the-helper"
INSTANCE = "inst-shop-1"


@dataclass
class House:
    client: Client
    world: EmbeddedWorld
    rig: Rig
    helper: Helper
    helper_port: int
    pod: Pod


@asynccontextmanager
async def api(directory: Path) -> AsyncIterator[tuple[EmbeddedWorld, Client]]:
    world = EmbeddedWorld(directory)
    await world.open()
    client = Client(world.transport(), "default")
    try:
        yield world, client
    finally:
        await client.close()
        await world.close()


@asynccontextmanager
async def furnished(directory: Path) -> AsyncIterator[House]:
    (directory / "agent").mkdir()
    async with api(directory / "api") as (world, client), running(directory / "agent") as rig:
        await client.create(SECRETS, agent_secret(INSTANCE, SECRET))
        pod = await placed(
            client, {"metadata": {"name": INSTANCE}, "spec": SPEC}, AGENT_PORT, rig.port
        )
        secret = await client.create(SECRETS, build.helper_secret(HELPER_TOKEN))
        snapshots = directory / "snapshots"
        snapshots.mkdir()
        store = Store.open(snapshots, SystemClock())
        helper, listener = Helper(HELPER_TOKEN, store, calls=4), listening()
        helper_port: int = listener.getsockname()[1]
        body = build.helper_pod(HelperSettings(), secret.metadata.uid)
        await placed(client, body, HELPER_PORT, helper_port)
        await helper.start(listener)
        try:
            yield House(client, world, rig, helper, helper_port, pod)
        finally:
            await helper.stop()


SPEC: dict[str, Any] = {"containers": [{"name": "tenant", "image": "host"}]}


async def placed(client: Client, body: dict[str, Any], port: int, moved: int) -> Pod:
    """Create a Pod that a node seems to run: `port` of it is at 127.0.0.1:`moved`."""
    name = body["metadata"]["name"]
    await client.create(PODS, body)
    await client.merge_patch(PODS, name, {"metadata": {"annotations": {PORTS: f"{port}:{moved}"}}})
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    return await client.merge_patch(PODS, name, {"status": status}, subresource="status")


async def gone(client: Client, name: str) -> bool:
    try:
        await client.get(PODS, name)
    except NotFound:
        return True
    return False
