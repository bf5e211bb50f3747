"""An agent on a directory of its own, asked through its socket as the helper asks it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import socket
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from boilerhouse.core.clock import Clock, SystemClock
from boilerhouse.node.agent.agent import Agent, Config
from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.disk.monitor import DiskMonitor
from boilerhouse.node.agent.freezer.processes import Process
from boilerhouse.node.agent.protocol import State
from boilerhouse.platform.files.quota import Quota
from boilerhouse.platform.processes.freezing import Restless
from boilerhouse.platform.rpc.message import Body, Request
from boilerhouse.platform.rpc.peer import Peer
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER

SECRET = "the-token-of-this-agent"


@dataclass
class Tenants:
    """The tenant's processes, as a test wants them; `story` is what was done to them."""

    found: list[Process] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    restless: bool = False
    rest: asyncio.Event | None = None  # when they stand still
    prepared: int = 0

    def of_tenant(self) -> list[Process]:
        return self.found

    def container(self) -> str:
        return "c0"

    async def freeze(self, *, allow_exec: bool = False) -> None:
        if self.restless:
            raise Restless("the tenant did not come to rest")
        if self.rest is not None:
            await self.rest.wait()
        self.story.append("freeze, exec allowed" if allow_exec else "freeze")

    def prepare_next(self) -> None:
        self.prepared += 1

    async def thaw(self) -> None:
        self.story.append("thaw")

    async def kill(self) -> None:
        self.story.append("kill")


@dataclass
class Told:
    """An answer, read to its end."""

    status: int
    body: bytes
    headers: dict[str, str]


@dataclass
class Rig:
    """`workspace` is the instance's /workspace; `port` is where the agent listens."""

    agent: Agent
    port: int
    workspace: Path
    identity: Path
    tenants: Tenants
    monitor: DiskMonitor

    async def ask(
        self,
        method: str,
        path: str,
        *query: tuple[str, str],
        body: bytes | Body = b"",
        token: str = SECRET,
    ) -> Told:
        content = body if isinstance(body, Body) else Body(body)
        answer = await Peer("127.0.0.1", self.port)(
            Request(method, path, query, {TOKEN_HEADER: token}, content)
        )
        try:
            return Told(answer.status, await answer.body.read(1 << 24), dict(answer.headers))
        finally:
            await answer.body.close()

    async def save(self, known: str = "", identifier: str = "a1") -> Told:
        return await self.ask("POST", "/save", ("id", identifier), ("known", known))

    async def saved(self, digest: str, identifier: str = "a1") -> Told:
        return await self.ask("POST", "/saved", ("id", identifier), ("digest", digest))

    async def restore(self, archive: bytes, mode: str = "restart", digest: str = "") -> Told:
        named = digest or hashlib.sha256(archive).hexdigest()
        return await self.ask("POST", "/restore", ("digest", named), ("mode", mode), body=archive)

    async def state(self) -> State:
        return State.decode((await self.ask("GET", "/state")).body)

    async def started(self) -> int:
        return (await self.ask("GET", "/started", token="")).status

    async def file(self, method: str, path: str, body: bytes | Body = b"") -> Told:
        return await self.ask(method, "/files", ("path", path), body=body)


@asynccontextmanager
async def running(
    directory: Path,
    clock: Clock | None = None,
    *,
    restore: str = "",
    tenants: Tenants | None = None,
    disk: DiskLimit | None = None,
    beside: tuple[Path, ...] = (),
    quota: Quota | None = None,
) -> AsyncIterator[Rig]:
    """An agent on these directories, which may be those of an agent before it."""
    identity, workspace, data, state = (
        directory / name for name in ("identity", "o0", "o1", "state")
    )
    for made in (identity, workspace, data, state):
        made.mkdir(exist_ok=True)
    tenants = tenants or Tenants()
    overlays = {"/workspace": workspace, "/var/data": data}
    config = Config(
        identity, overlays, state, SECRET, restore, disk=disk, beside=beside, quota=quota
    )
    agent = Agent(config, tenants, clock or SystemClock())
    listener = listening()
    port: int = listener.getsockname()[1]
    await agent.start(listener)
    try:
        yield Rig(agent, port, workspace, identity, tenants, config.monitor)
    finally:
        await agent.stop()


async def eventually(holds: Callable[[], bool | Awaitable[bool]], timeout: float = 20) -> None:
    """Ask until it holds."""
    async with asyncio.timeout(timeout):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def archive(**files: bytes) -> bytes:
    """An archive with these files in /workspace."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        directory = tarfile.TarInfo("workspace")
        directory.type, directory.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(directory)
        for name, content in files.items():
            member = tarfile.TarInfo(f"workspace/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
