"""The helper as a process: killed at any moment, on a full volume, under load, in little memory."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from boilerhouse.node.agent import protocol
from boilerhouse.node.helper import wire
from boilerhouse.node.helper.wire import RestoreOrder, Saved, SaveOrder, Version
from boilerhouse.platform.rpc.message import Answer, Body, Request
from boilerhouse.platform.rpc.peer import Peer, Unreachable
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused
from boilerhouse.platform.rpc.server import Server
from tests.absence import absent
from tests.unit.node.agent.agent_fixture import listening
from tests.unit.node.helper.pretender import TOKEN, Pretender

HELPER_TOKEN = "the-token-of-the-helper"
ROOT = Path(__file__).parents[2]
WHOSE = (("tenant", "anna"), ("workload", "shop"))


@dataclass
class Program:
    """A running helper."""

    process: asyncio.subprocess.Process
    port: int

    async def ask(
        self,
        method: str,
        path: str,
        agent: int,
        body: bytes = b"",
        query: tuple[tuple[str, str], ...] = (),
    ) -> bytes:
        """Ask until it is done; `Refused` or `Unreachable` otherwise."""
        headers = {
            TOKEN_HEADER: HELPER_TOKEN,
            protocol.AGENT: f"127.0.0.1:{agent}",
            protocol.AGENT_TOKEN: TOKEN,
        }
        while True:
            request = Request(method, path, query, headers, Body(body))
            answer: Answer = await Peer("127.0.0.1", self.port)(request)
            try:
                told = await answer.body.read(1 << 20)
            finally:
                await answer.body.close()
            if answer.status >= 300:
                raise Refused.of(answer.status, told)
            if answer.status != 202:
                return told

    async def save(self, agent: int, pod: str, base: str) -> Saved:
        order = SaveOrder("anna", "shop", pod, base, wire.KEEP, 0)
        return Saved.decode(await self.ask("POST", wire.SAVE, agent, order.encode()))

    async def current(self) -> Version | None:
        found = await self.ask("GET", wire.CURRENT, 1, query=WHOSE)
        return Version.decode(found) if found else None

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()


@asynccontextmanager
async def program(directory: Path, *wrapping: str) -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        *wrapping,
        sys.executable,
        "-m",
        "tests.faults.helper_program",
        str(directory),
        HELPER_TOKEN,
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    running = Program(process, 0)
    try:
        running.port = int(await process.stdout.readline())
        yield running
    finally:
        await running.end()


@asynccontextmanager
async def listens(agent: Pretender) -> AsyncIterator[int]:
    server, listener = Server("agent", agent), listening()
    port: int = listener.getsockname()[1]
    await server.start(listener)
    try:
        yield port
    finally:
        await server.stop()


def hashed(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kills"),
    [
        pytest.param(1, 12),
        pytest.param(2, 200, marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
async def test_a_helper_killed_at_any_moment(tmp_path: Path, seed: int, kills: int) -> None:
    """What was acknowledged is current afterwards, or what was under way is; whole in any case."""
    rng = random.Random(seed)
    directory = tmp_path / "snapshots"
    directory.mkdir()
    current = tmp_path / "snapshots" / "anna" / "shop.tar.gz"
    agent, acknowledged, cut_off = Pretender(), "", 0
    async with listens(agent) as port:
        for number in range(kills):
            agent.data = rng.randbytes(rng.choice([1000, 3 << 20, 12 << 20]))
            async with program(directory) as helper:
                seen = await helper.current()
                assert (seen.digest if seen is not None else "") == acknowledged
                assert not list((directory / ".tmp").iterdir())
                saving = asyncio.create_task(helper.save(port, f"pod-{number}", acknowledged))
                await asyncio.wait({saving}, timeout=rng.choice([0, 0.005, 0.02, 0.06, 0.2]))
                helper.process.kill()
                try:
                    acknowledged = (await saving).digest
                except Unreachable:
                    cut_off += 1
                    # The rename was made, or it was not: both are right, as long as nobody
                    # was told.
                    now = hashed(current) if current.exists() else ""
                    assert now in (acknowledged, agent.digest)
                    acknowledged = now
            if acknowledged:
                assert hashed(current) == acknowledged
    assert cut_off, "no kill came in the middle of anything"


def small(directory: Path) -> list[str]:
    """Return what runs a command with a small volume of its own at a directory."""
    unshare = shutil.which("unshare")
    if unshare is None:
        absent("a small volume needs `unshare`, which is not in PATH")
    mounted = f'mount -t tmpfs -o size=4m none {directory} && exec "$@"'
    flags = ["-m"] if os.geteuid() == 0 else ["-Urm"]
    wrapping = [unshare, *flags, "sh", "-c", mounted, "sh"]
    if subprocess.run([*wrapping, "true"], capture_output=True).returncode:
        absent("a small volume needs a mount namespace, which cannot be made here")
    return wrapping


async def test_a_volume_that_is_full(tmp_path: Path) -> None:
    """507 with what to do, the old version as it was; with room again it works on."""
    directory = tmp_path / "snapshots"
    directory.mkdir()
    wrapping = small(directory)
    agent = Pretender(os.urandom(1 << 20))
    async with listens(agent) as port, program(directory, *wrapping) as helper:
        first = await helper.save(port, "pod-1", "")
        agent.data = os.urandom(8 << 20)
        for _ in range(2):
            with pytest.raises(Refused, match="full") as refused:
                await helper.save(port, "pod-1", first.digest)
            assert (refused.value.status, refused.value.code) == (507, "volume-full")
            assert not agent.frozen
        now = await helper.current()
        assert now is not None and now.digest == first.digest
        agent.data = os.urandom(1 << 20)
        assert (await helper.save(port, "pod-1", first.digest)).current


@pytest.mark.slow
async def test_memory_is_bounded_whatever_the_size(tmp_path: Path) -> None:
    """Four saves of 64 MB at once, then restores of them: the helper stays under 64 MiB."""
    directory = tmp_path / "snapshots"
    directory.mkdir()
    agents = [Pretender(os.urandom(1 << 20) * 64) for _ in range(4)]
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(listens(agent)) for agent in agents]
        helper = await stack.enter_async_context(program(directory))

        async def there_and_back(number: int) -> None:
            tenant, digest = f"tenant-{number}", agents[number].digest
            order = SaveOrder(tenant, "shop", "pod", "", wire.KEEP, 0)
            await helper.ask("POST", wire.SAVE, ports[number], order.encode())
            restore = RestoreOrder(tenant, "shop", "pod", digest, "cold")
            await helper.ask("POST", wire.RESTORE, ports[number], restore.encode())
            assert agents[number].restored == digest

        await asyncio.gather(*(there_and_back(number) for number in range(4)))
        peak = peak_memory(helper.process.pid)
    assert peak < 64 << 10, f"{peak} KiB"


def peak_memory(pid: int) -> int:
    """Return the most that a process ever had, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


async def test_a_caller_that_hangs_up(tmp_path: Path) -> None:
    """Over a socket too: the save goes on, and whoever asks next is told."""
    directory = tmp_path / "snapshots"
    directory.mkdir()
    agent = Pretender(os.urandom(2 << 20))
    agent.gate = asyncio.Event()
    async with listens(agent) as port, program(directory) as helper:
        asking = asyncio.create_task(helper.save(port, "pod-1", ""))
        await agent.streaming.acquire()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        agent.gate.set()
        assert (await helper.save(port, "pod-1", "")).current
        assert agent.may_stop
