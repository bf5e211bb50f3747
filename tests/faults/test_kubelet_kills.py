"""The whole process killed at any moment: no process is left, no tenant's file is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from boilerhouse.core.clock import SystemClock, new_rng
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.transport import Http
from tests.absence import absent, sandbox_unavailable
from tests.e2e.tenants import Body, eventually, pod, sh
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
KILLS = 4
# Each file is whole when it has its name, and is there to stay once it was seen.
WRITER = """
n=$(ls /data | wc -l)
while :; do
    echo "$n" > /tmp/next; cp /tmp/next "/data/.$n"; mv "/data/.$n" "/data/$n"
    n=$((n+1)); sleep 0.02
done
"""
_NUMBERS = itertools.count(1)


class Up:
    """One life of the process."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.kubelet_program", str(directory)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._directory = directory

    async def serving(self) -> None:
        assert self.process.stdout is not None
        lines = self.process.stdout
        while line := await asyncio.to_thread(lines.readline):
            if line == "serving\n":
                return
        raise AssertionError("it ended before it served")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        client = Client(Http(Config(server=f"unix://{self._directory}/kube.sock")), "boilerhouse")
        yield client
        await client.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def processes(marker: str) -> list[int]:
    """Return who on this machine carries a mark in its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


async def test_killed_at_any_moment(tmp_path: Path) -> None:
    """After each SIGKILL every process ends; started again, the Pod runs on with all its files."""
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")
    marker = f"bh-marker-{os.getpid()}-{next(_NUMBERS)}"
    directory = tmp_path / "data"
    rng = new_rng(7)
    data: Body = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    body = pod(
        "writer",
        sh(f"# {marker}\n{WRITER}", **data),
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    volume: Path | None = None
    before: set[str] = set()
    for life in range(KILLS):
        up = Up(directory)
        try:
            await up.serving()
            async with up.client() as client:
                if life == 0:
                    await client.create(PODS, body)
                seen = await until(client, PODS, "writer", _ready_again(life), 60)
                assert seen[-1] is not None
                uid = seen[-1].metadata.uid
                volume = directory / "pods" / uid / "volumes" / "data"
                await eventually(_grown(volume, len(before)))
                assert processes(marker)
                await asyncio.sleep(rng.random() / 2)
                before = visible(volume)
        finally:
            up.kill()

        async def alone() -> bool:
            return not await asyncio.to_thread(processes, marker)

        await eventually(alone)
        now = visible(volume)
        assert before <= now
        assert all((volume / name).read_text() == f"{name}\n" for name in now)
        before = now

    up = Up(directory)
    try:
        await up.serving()
        async with up.client() as client:
            await client.delete(PODS, "writer")
            await until(client, PODS, "writer", lambda one: one is None)

        async def swept() -> bool:
            return not await asyncio.to_thread(lambda: list((directory / "pods").iterdir()))

        await eventually(swept)
        up.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(up.process.wait, 20)
    finally:
        up.kill()


def visible(volume: Path) -> set[str]:
    return {entry.name for entry in volume.iterdir() if not entry.name.startswith(".")}


def _grown(volume: Path, than: int) -> Callable[[], Awaitable[bool]]:
    async def grown() -> bool:
        return len(visible(volume)) > than + 2

    return grown


def _ready_again(life: int) -> Callable[[Pod | None], bool]:
    """Ready in this life: what is told at first may still be the state of the one before."""

    def ready(found: Pod | None) -> bool:
        return (
            found is not None
            and found.ready
            and found.status.container_statuses[0].restart_count >= life
        )

    return ready
