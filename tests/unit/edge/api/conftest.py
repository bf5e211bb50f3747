"""The services on an embedded API server: real routes, real operator, a kubelet that pretends."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import NAMESPACE
from boilerhouse.edge.api.app import application
from boilerhouse.edge.api.services import Services
from boilerhouse.edge.api.serving import serving
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.store.store import Store as Shelves
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.serving.listening import bind
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.build import helper_secret
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from tests.controllers.operator_fixture import NODE, World, make_node, started
from tests.embedded_fixture import start_server
from tests.unit.edge.api.files import Files
from tests.unit.edge.api.node import PretendedNode

SIGNING = b"s" * 32
KEY = "correct-horse"
HELPER_TOKEN = "of the snapshot helper"


@dataclass
class Rest:
    """The API as a caller sees it, and the world behind it."""

    world: World
    services: Services
    node: PretendedNode
    http: httpx2.AsyncClient
    server: ApiServer

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return await self.http.post(f"/api/v1{path}", json=body, **options)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.http.get(f"/api/v1{path}", **options)

    async def claim(self, tenant: str, workload: str = "web", **options: Any) -> httpx2.Response:
        return await self.post(f"/tenants/{tenant}/claim", {"workload": workload}, **options)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve the services on a real port: for what needs a connection that can break."""
        async with serving(self.services, bind("127.0.0.1", [0])) as address:
            yield address


@asynccontextmanager
async def opened_rest(
    directory: Path, key: str = "", helper: Helper | None = None, files: Files | None = None
) -> AsyncIterator[Rest]:
    async with AsyncExitStack() as stack:
        store = await Store.open(directory)
        stack.push_async_callback(store.close)
        server = await start_server(store, SystemClock())
        stack.push_async_callback(server.stop)
        transport = InProcess(server)
        client = Client(transport, NAMESPACE)
        await make_node(client)
        node = PretendedNode()
        server.nodes[NODE] = node
        world = World(client, SystemClock())
        if files is not None:
            world.operator = world.another_operator(snapshots=files)
        snapshots = None
        if helper is not None:
            await client.create(SECRETS, helper_secret(HELPER_TOKEN))
            snapshots = SnapshotClient(client, helper.handle, Agents(client))
        services = Services.of(world.operator, signing=SIGNING, key=key, snapshots=snapshots)
        await stack.enter_async_context(services.running())
        await stack.enter_async_context(started(world.kubelet.manager, world.operator))
        for informer in services.informers:
            await informer.wait_synced()
        asgi = httpx2.ASGITransport(app=application(services))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(transport=asgi, base_url="http://127.0.0.1:3000", timeout=60)
        )
        yield Rest(world, services, node, http, server)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep log lines instead of printing them."""
    with capture_logs():
        yield


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncIterator[Rest]:
    async with opened_rest(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Rest]:
    """The same, guarded by a key."""
    async with opened_rest(tmp_path / "data", KEY) as opened:
        yield opened


def _helper(directory: Path) -> Helper:
    directory.mkdir()
    return Helper(HELPER_TOKEN, Shelves.open(directory, SystemClock()))


@asynccontextmanager
async def opened_helper(directory: Path) -> AsyncIterator[Helper]:
    """A snapshot helper with a volume of its own."""
    helper = _helper(directory)
    try:
        yield helper
    finally:
        await helper.stop()


@pytest.fixture
async def storing(tmp_path: Path) -> AsyncIterator[Rest]:
    """The same as `rest`, with a snapshot helper that can be asked."""
    async with (
        opened_helper(tmp_path / "snapshots") as helper,
        opened_rest(tmp_path / "data", helper=helper) as opened,
    ):
        yield opened


def archive(**files: str) -> bytes:
    """An archive as people make them: a gzip tar of /workspace."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"workspace/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


async def soon(holds: Any, timeout: float = 10) -> None:
    """Wait until a question about this process is answered with yes."""
    async with asyncio.timeout(timeout):
        while not holds():  # noqa: ASYNC110  nobody announces it
            await asyncio.sleep(0.01)
