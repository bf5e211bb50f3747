"""A world with a kubelet for stories, and what its Pods can be asked and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from boilerhouse.core import names
from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.kubelet.containers.builtin_images import Builtin, Inside
from boilerhouse.embedded.kubelet.objects.room import Requests
from boilerhouse.embedded.world import World
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.run.kubelet import kubelet_settings
from tests.e2e.tenants import Body, eventually
from tests.embedded_fixture import open_world
from tests.waiting import until


class Ticker:
    """A built-in container: says what it was given, answers its port, ends when stopped."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._ended = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        listener = self._inside.listen(7711)
        self._server = await asyncio.start_server(self._answer, sock=listener)
        self._inside.log.write("stdout", f"args {self._inside.args}\n".encode())

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = ",".join(sorted(self._inside.neighbours.running())).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for mount in self._inside.mounts.values():
            (mount / "stopped-last").write_text("yes")
        self._ended.set()


def ticker(inside: Inside) -> Builtin:
    return Ticker(inside)


async def fetch(pod: Pod, port: int) -> bytes:
    """Return what a Pod answers at the address that is told for a declared port."""
    moved = pod.metadata.annotations.get(names.PORTS, "")
    told = dict(one.split(":") for one in moved.split(",") if one)
    number = int(told.get(str(port), port))
    reader, writer = await asyncio.open_connection(pod.status.pod_ip, number)
    try:
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@dataclass
class Scene:
    world: World
    client: Client

    async def create(self, body: Body) -> Pod:
        return await self.client.create(PODS, body)

    async def until(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        seen = await until(self.client, PODS, name, lambda one: one is not None and holds(one))
        assert seen[-1] is not None
        return seen[-1]

    async def ready(self, name: str) -> Pod:
        return await self.until(name, lambda one: one.ready)

    async def gone(self, name: str) -> None:
        await until(self.client, PODS, name, lambda one: one is None)

    def directory(self, uid: str) -> Path:
        """Where a Pod's own things are."""
        return self.world.directory / "pods" / uid

    async def swept(self, uid: str) -> None:
        """Wait for what follows a deletion: the object goes first, its directory after it."""

        async def gone() -> bool:
            return not await asyncio.to_thread(self.directory(uid).exists)

        await eventually(gone)

    async def sh(self, name: str, script: str, container: str = "") -> str:
        done = await self.client.pods.run(name, ["/bin/sh", "-c", script], container=container)
        assert done.exit_code == 0, done
        return done.stdout.decode().strip()

    async def said(self, name: str, text: bytes) -> None:
        async def told() -> bool:
            return text in await self.client.pods.log(name)

        await eventually(told)


SETTINGS = replace(
    kubelet_settings({"tick": ticker}),
    disk_seconds=0.3,
    capacity=Requests(parse("4"), parse("4Gi"), parse("100Gi"), 50),
)


async def opened(directory: Path) -> Scene:
    world = await open_world(directory, SETTINGS)
    return Scene(world, Client(world.transport, "boilerhouse"))
