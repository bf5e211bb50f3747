"""Connections to Pods' ports: bounded for one Pod, and for all of them together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from boilerhouse.core.connections import PODS
from boilerhouse.embedded.kubelet.network.forward import Forwarder
from boilerhouse.embedded.kubelet.network.netns import PodNetwork


class OnThisMachine:
    """A Pod's network as far as it matters here: its ports are this machine's."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.port = 0

    async def connect(self, _: int) -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.port))
        return made


@pytest.fixture
def eight() -> Iterator[None]:
    """At most eight connections to all Pods, of which one Pod may have four."""
    before, PODS.most = PODS.most, 8
    yield
    PODS.most = before
    assert PODS.open == 0


class Rig:
    def __init__(self, echo: asyncio.Server) -> None:
        self._port = echo.sockets[0].getsockname()[1]
        self.forwarders: list[Forwarder] = []
        self.writers: list[asyncio.StreamWriter] = []

    def pod(self, address: str) -> tuple[str, int]:
        network = OnThisMachine(address)
        network.port = self._port
        forwarder = Forwarder(cast(PodNetwork, network))
        self.forwarders.append(forwarder)
        return forwarder.listen(0)

    async def connect(self, where: tuple[str, int]) -> tuple[Any, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*where)
        self.writers.append(writer)
        return reader, writer

    async def works(self, where: tuple[str, int]) -> asyncio.StreamWriter:
        reader, writer = await self.connect(where)
        writer.write(b"hi\n")
        assert await reader.readline() == b"hi\n"
        return writer


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1024):
        writer.write(piece)
    writer.close()


@pytest.fixture
async def rig(eight: None) -> AsyncIterator[Rig]:
    echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
    made = Rig(echo)
    try:
        async with asyncio.timeout(20):
            yield made
    finally:
        for writer in made.writers:
            writer.transport.abort()
        for forwarder in made.forwarders:
            await forwarder.close()
        echo.close()


async def test_one_pod_is_refused_at_its_bound_and_another_is_not(rig: Rig) -> None:
    """The fifth connection to one Pod is reset; another Pod's ports answer."""
    greedy, modest = rig.pod("127.0.0.1"), rig.pod("127.0.0.1")
    for _ in range(4):
        await rig.works(greedy)
    with pytest.raises(ConnectionError):
        reader, writer = await rig.connect(greedy)
        writer.write(b"hi\n")
        assert await reader.readline() == b"", "refused"
        raise ConnectionResetError
    await rig.works(modest)


async def test_at_the_bound_of_all_pods_the_next_connection_waits(rig: Rig) -> None:
    """It is served as soon as one of the others ends."""
    pods = [rig.pod("127.0.0.1") for _ in range(3)]
    held = [await rig.works(pod) for pod in pods[:2] for _ in range(4)]
    assert PODS.open == 8
    reader, writer = await rig.connect(pods[2])
    writer.write(b"late\n")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await reader.readline()
    held[0].transport.abort()
    assert await reader.readline() == b"late\n"
