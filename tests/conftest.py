"""Fixtures that several folders share: the real API server and the real node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cluster import leftovers, turns
from cluster import node as cluster_node
from cluster.api import ApiWorld
from cluster.build import NODE, missing
from cluster.nodeconfig import NodeFiles
from cluster.places import ClusterError, Places

from tests.absence import absent
from tests.real_fixture import RealWorld, clean, require_api_binaries

pytest_plugins = ["tests.processes", "tests.stalls"]


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


_TURN = pytest.StashKey[contextlib.ExitStack]()
_NO_TURN = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the node before the first test that needs it: its own deadline has not begun."""
    config = item.config
    if item.get_closest_marker("node") and os.geteuid() == 0 and _TURN not in config.stash:
        config.stash[_TURN] = contextlib.ExitStack()
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        say = terminal.write_line if terminal is not None else print
        try:
            config.stash[_TURN].enter_context(turns.taken(say))
        except ClusterError as error:
            config.stash[_NO_TURN] = str(error)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _TURN in config.stash:
        config.stash[_TURN].close()


@pytest.fixture(scope="session")
def real_node(pytestconfig: pytest.Config) -> Iterator[RealNode]:
    """The node that is up, or one that lives as long as the session and leaves nothing behind."""
    places = Places.user()
    if os.geteuid() != 0:
        absent("a real node needs root")
    if _NO_TURN in pytestconfig.stash:
        pytest.fail(pytestconfig.stash[_NO_TURN], pytrace=False)
    assert _TURN in pytestconfig.stash, "a test that uses the node is marked `node`"
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
