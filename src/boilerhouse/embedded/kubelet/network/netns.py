"""A Pod's network namespace, and sockets that live in it while this process holds them.

    fork server ─► network namespace (a descriptor) ─► sockets made inside ─► tenant's port

Nobody lives in the namespace for its own sake: it exists as long as its descriptor or a container,
so a killed Boilerhouse leaves none behind. Sockets come from the fork server a few at a time.
"""

from __future__ import annotations

import asyncio
import os
import socket

from boilerhouse.embedded.kubelet.forkserver.client import ForkServerClient

_BATCH = 4


class PodNetwork:
    """A namespace, by its descriptor, which is closed with it."""

    def __init__(self, fork_server: ForkServerClient, fd: int, address: str) -> None:
        self.fd = fd
        self.address = address
        self._fork_server = fork_server
        self._stock: list[socket.socket] = []
        self._closed = False

    async def connect(self, port: int) -> socket.socket:
        """Connect to a port at the Pod's own address, from inside.

        Not to 127.0.0.1: what listens only there is private to the Pod, here as on a cluster.
        """
        inside = await self._socket()
        try:
            await asyncio.get_running_loop().sock_connect(inside, (self.address, port))
        except BaseException:
            inside.close()
            raise
        return inside

    async def _socket(self) -> socket.socket:
        if not self._stock:
            self._require_open()
            _, fds = await self._fork_server.request({"op": "sockets", "count": _BATCH}, [self.fd])
            made = [socket.socket(fileno=fd) for fd in fds]
            try:
                self._require_open()  # it may have ended while they were made
            except ConnectionRefusedError:
                for one in made:
                    one.close()
                raise
            for one in made:
                one.setblocking(False)
            self._stock += made
        return self._stock.pop()

    def _require_open(self) -> None:
        if self._closed:
            raise ConnectionRefusedError("the Pod has ended")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self.fd)
            for made in self._stock:
                made.close()
            self._stock.clear()
