"""The product's own containers on one machine: agents and helper as tasks of this process.

kubelet ─► Product.builtins ─► Agent, Helper             the same code as in a cluster's Pods
operator, API ─► Product.route ─► Helper ─► Product.reach ─► Agent

They listen at their Pods' addresses like any container. But who asks them from this very process
need not go through two sockets to reach a function next door: `route` and `reach` are the short
ways, and a claim's identity is delivered without any connection at all.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path

from boilerhouse.core.names import AGENT_PORT, HELPER_PORT
from boilerhouse.embedded.kubelet.containers.builtin_images import (
    Builtin,
    Builtins,
    Inside,
    Neighbours,
)
from boilerhouse.node.agent import layout as agent_layout
from boilerhouse.node.agent.agent import Agent, Config
from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.disk.monitor import DiskMonitor
from boilerhouse.node.agent.freezer.processes import Process, look
from boilerhouse.node.agent.running import Serves
from boilerhouse.node.helper import layout as helper_layout
from boilerhouse.node.helper.agentline import by_network
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.store.store import Store
from boilerhouse.platform.archive.model import Owners
from boilerhouse.platform.archive.workers import Workers
from boilerhouse.platform.files.quota import DiskSpace
from boilerhouse.platform.rpc.message import Answer, Handler, Request, answering
from boilerhouse.platform.rpc.peer import Unreachable

Address = tuple[str, int]
# A server, its handler, and what to wait for when it is asked to end.
Made = tuple[Serves, Handler, Callable[[], Awaitable[None]] | None]


class Product:
    """What runs of the product's image on this machine, by where it listens."""

    def __init__(self) -> None:
        self._agents: dict[Address, Handler] = {}
        self._helpers: dict[Address, Handler] = {}
        self._workers = Workers(zygote=True)
        self._monitor = DiskMonitor()

    def builtins(self) -> Builtins:
        """Return the containers that the kubelet starts here instead of in a sandbox."""
        return {"agent": self._agent, helper_layout.HELPER: self._helper}

    def press(self, growth: DiskSpace | None) -> None:
        """Have instances grow by no more than this: the disk is nearly full. None: no more."""
        self._monitor.press(None if growth is None else DiskLimit(growth.bytes, growth.inodes))

    def reserve_changed(self, size: int, inodes: int) -> None:
        """Hear what of the reserve was given up; less than 0: was filled."""
        self._monitor.reserve_changed(size, inodes)

    async def close(self) -> None:
        """Keep nothing ready any more; the containers have ended by then."""
        await self._workers.close()

    def reach(self, host: str, port: int, patience: float) -> Handler:
        """Return the agent at an address: itself if it is one of ours."""
        return self._agents.get((host, port)) or by_network(host, port, patience)

    async def route(self, request: Request) -> Answer:
        """Ask the helper; `Unreachable` while none runs, `Refused` as it is raised."""
        for helper in self._helpers.values():
            return await helper(request)
        raise Unreachable("the snapshot helper does not run")

    def _agent(self, inside: Inside) -> Builtin:
        self._workers.prepare()

        # Not in a thread, where it would wait for a processor longer than it takes: it reads two
        # small files of an earlier agent, or finds that there are none.
        async def make() -> Made:
            gb = int(inside.env.get(agent_layout.DISK_VARIABLE, "0"))
            config = Config(
                identity=inside.mounts[agent_layout.IDENTITY_DIR],
                overlays=_overlays(inside.mounts),
                state=inside.mounts[agent_layout.STATE_DIR],
                token=_token(inside.mounts, agent_layout.TOKEN_FILE),
                restore=inside.env.get(agent_layout.RESTORE_VARIABLE, ""),
                disk=DiskLimit.of_gb(gb) if gb else None,
                monitor=self._monitor,
                beside=inside.writable,
                quota=inside.quota,
                owners=Owners(inside.outside, inside.inside),
                workers=self._workers,
                changed=inside.news,
            )
            agent = Agent(config, _Tenant(inside.neighbours), inside.clock)
            return agent, answering(agent.handle), agent.dispensable

        return _Served(make, inside, AGENT_PORT, self._agents)

    def _helper(self, inside: Inside) -> Builtin:
        async def make() -> Made:
            token = _token(inside.mounts, helper_layout.TOKEN_FILE)
            snapshots = inside.mounts[helper_layout.SNAPSHOTS_DIR]
            store = await asyncio.to_thread(Store.open, snapshots, inside.clock)
            helper = Helper(token, store, reach=self.reach)
            return helper, helper.handle, None

        return _Served(make, inside, HELPER_PORT, self._helpers)


class _Served:
    """A server of ours as a container."""

    def __init__(
        self,
        make: Callable[[], Coroutine[None, None, Made]],
        inside: Inside,
        port: int,
        known: dict[Address, Handler],
    ) -> None:
        self._make = make
        self._inside = inside
        self._port = port
        self._known = known
        self._server: Serves | None = None
        self._dispensable: Callable[[], Awaitable[None]] | None = None
        self._address: Address = ("", 0)
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Listen; raises if what must be mounted is not there."""
        making = asyncio.create_task(self._make())
        try:
            server, handler, self._dispensable = await asyncio.shield(making)
            listener: socket.socket = self._inside.listen(self._port)
            host, port = listener.getsockname()[:2]
            await server.start(listener)
        except BaseException:
            # What was made may hold something, such as the volume of the snapshots.
            await asyncio.wait({making})
            if making.exception() is None:
                await making.result()[0].stop()
            raise
        self._server = server
        self._address = (host, port)
        self._known[self._address] = handler
        self._inside.log.write("stderr", f"listening on port {self._port}\n".encode())

    async def wait(self) -> int:
        """Serve until `stop` and until it is dispensable, or until it is cut off."""
        try:
            await self._stopping.wait()
            # If only we leave, its Pod and what is in it stay: there is nothing to be saved.
            if self._dispensable is not None and not self._inside.pod_stays():
                await self._dispensable()
        finally:
            self._known.pop(self._address, None)
            if self._server is not None:
                await self._server.stop()
        return 0

    async def stop(self) -> None:
        self._stopping.set()


class _Tenant:
    """The tenant's processes: those of the Pod's sandboxed containers, as the machine has them."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self.prepare_next = neighbours.prepare_next
        self.freeze = neighbours.freeze
        self.thaw = neighbours.thaw
        self.kill = neighbours.kill

    def of_tenant(self) -> list[Process]:
        running = self._neighbours.running().values()
        numbers = sorted(pid for one in running for pid in one.processes())
        seen = (look(Path(f"/proc/{pid}")) for pid in numbers)
        return [found[0] for found in seen if found is not None and found[2]]

    def container(self) -> str:
        return self._neighbours.container_id().rpartition("://")[2]


def _overlays(mounts: Mapping[str, Path]) -> dict[str, Path]:
    root = agent_layout.OVERLAY_ROOT
    return {
        path.removeprefix(root): where
        for path, where in mounts.items()
        if path.startswith(root + "/")
    }


def _token(mounts: Mapping[str, Path], file: str) -> str:
    directory, _, name = file.rpartition("/")
    return (mounts[directory] / name).read_text().strip()
