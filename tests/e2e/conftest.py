"""The real node for stories: a client in a namespace of its own, our image; and a small machine."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from cluster import image, node
from cluster.places import Places

from boilerhouse.core.clock import SystemClock
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from boilerhouse.platform.kube.transport import Http
from tests.absence import absent, sandbox_unavailable
from tests.e2e.embedded_fixture import Scene, opened
from tests.e2e.helper_fixture import Stage, embedded, on_node
from tests.e2e.snapshots_fixture import Home, beside_a_node, on_this_machine
from tests.waiting import until_found

_NUMBERS = itertools.count(1)


@pytest.fixture
async def client(node_kubeconfig: Path) -> AsyncIterator[Client]:
    name = f"e2e-{os.getpid()}-{next(_NUMBERS)}"
    client = Client(Http(from_kubeconfig(node_kubeconfig)), name)
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    await until_found(client, SERVICE_ACCOUNTS, "default")
    yield client
    await client.delete(NAMESPACES, name)
    await client.close()


@pytest.fixture(scope="session")
def product_archive(node_kubeconfig: Path) -> Path:
    """Made while the node is ours: another run with other sources would remove it again."""
    return image.make(Places.user(), print)


@pytest.fixture(scope="module")
def product_image(node_kubeconfig: Path, product_archive: Path) -> str:
    """The product's image, given to the node anew: one that was restarted has lost it."""
    node.load_image(Places.user(), product_archive)
    return image.NAME


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")
    scene = await opened(tmp_path / "data")
    yield scene
    await scene.world.close()


EMBEDDED = pytest.param("embedded", marks=pytest.mark.slow)
NODE = pytest.param("node", marks=pytest.mark.node)


@pytest.fixture(params=[EMBEDDED, NODE])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """A cluster with a helper that is kept."""
    async with AsyncExitStack() as stack:
        if request.param == "embedded":
            problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
            if problems:
                absent(f"containers cannot run here: {problems[0]}")
            stage = await stack.enter_async_context(embedded(tmp_path / "data"))
        else:
            made = request.getfixturevalue("product_image")
            kubeconfig = request.getfixturevalue("node_kubeconfig")
            stage = await stack.enter_async_context(on_node(kubeconfig, made, tmp_path / "volume"))
        await stack.enter_async_context(stage.keeping())
        yield stage


@pytest.fixture(scope="module", params=[EMBEDDED, NODE])
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Home]:
    """A house for a whole file of stories, since a Pod of a real node takes seconds."""
    directory = tmp_path_factory.mktemp("home")
    if request.param == "embedded":
        with on_this_machine(directory) as made:
            yield made
        return
    request.getfixturevalue("product_image")
    with beside_a_node(request.getfixturevalue("node_kubeconfig"), directory) as made:
        yield made
