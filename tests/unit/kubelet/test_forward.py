"""The way into a Pod, when it ends in the midst of connections: every socket is closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.forward import Forwarder
from boilerhouse.embedded.kubelet.netns import PodNetwork


class SlowNursery:
    """A fork server that takes a while to make sockets; they are of this network."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.go = asyncio.Event()

    async def request(self, message: dict[str, Any], fds: list[int]) -> tuple[Any, list[int]]:
        await self.go.wait()
        made = [socket.socket().detach() for _ in range(message["count"])]
        self.made += made
        return {}, made


def network(nursery: SlowNursery) -> PodNetwork:
    return PodNetwork(nursery, os.open("/dev/null", os.O_RDONLY), "127.0.0.1")  # type: ignore[arg-type]  # as much of it as is asked


async def test_sockets_made_for_a_pod_that_has_ended_are_closed() -> None:
    """They come after the Pod's network was closed, and nothing else would ever close them."""
    nursery = SlowNursery()
    inside = network(nursery)
    connecting = asyncio.create_task(inside.connect(80))
    await asyncio.sleep(0)
    inside.close()
    nursery.go.set()
    with pytest.raises(ConnectionRefusedError, match="ended"):
        await connecting
    assert len(nursery.made) == 4
    assert not any(os.path.exists(f"/proc/self/fd/{fd}") for fd in nursery.made)  # noqa: ASYNC240, PTH110


async def test_connections_that_come_while_a_pod_ends_are_closed() -> None:
    """Whether or not they were accepted by then: clients see their end, and nothing leaks."""
    nursery = SlowNursery()
    inside = network(nursery)
    for _ in range(30):
        forwarder = Forwarder(inside)
        host, port = forwarder.listen(0)
        clients = [socket.create_connection((host, port)) for _ in range(5)]
        # Enough for the listener to be seen as readable; then the task ends before its turn.
        await asyncio.sleep(0)
        await forwarder.close()
        for client in clients:
            client.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(client.recv, 1) == b""
            client.close()
    inside.close()
