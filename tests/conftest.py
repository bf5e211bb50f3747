"""Fixtures that several folders share: the real API server and the real node."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cluster import leftovers
from cluster import node as cluster_node
from cluster.api import ApiWorld
from cluster.build import NODE, missing
from cluster.nodeconfig import NodeFiles
from cluster.places import Places

from tests.worlds import RealWorld, absent, clean, require_api_binaries


def pytest_configure() -> None:
    # Or asking for a loop where there is none (looptime does, before synchronous tests) would make
    # one that nobody closes.
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def real_api() -> Iterator[ApiWorld]:
    """A kube-apiserver with etcd and controllers, for the whole session."""
    require_api_binaries()
    directory = Path(tempfile.mkdtemp(prefix="boilerhouse-api-"))
    with ApiWorld(directory) as world:
        yield world
    clean(directory)


@pytest.fixture(scope="session")
def real_world(real_api: ApiWorld) -> RealWorld:
    return RealWorld(real_api)


class RealNode(NamedTuple):
    """A whole node. One that was up before the tests is somebody's: it is used, not changed."""

    places: Places
    ours: bool


@pytest.fixture(scope="session")
def real_node() -> Iterator[RealNode]:
    """The node that is up, or one that lives as long as the session and leaves nothing behind."""
    places = Places.user()
    if os.geteuid() != 0:
        absent("a real node needs root")
    if missing(places, NODE) and shutil.which("go") is None:
        absent("a real node needs the Go toolchain, which is not in PATH")
    if missing(places, NODE):
        absent("a real node must be built first: run `python -m cluster build`")
    if cluster_node.is_up(places):
        yield RealNode(places, ours=False)
        return
    cluster_node.up(places, print)
    yield RealNode(places, ours=True)
    cluster_node.down(places, print)
    assert leftovers.found(NodeFiles(places.node)) == []


@pytest.fixture(scope="session")
def node_kubeconfig(real_node: RealNode) -> Path:
    return cluster_node.kubeconfig(real_node.places)
