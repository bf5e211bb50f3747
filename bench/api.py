"""The embedded API: creates in process, lists and watches over HTTP, start and memory.

One `boilerhouse up` is started as a user would start it; lists and watches go to it through its
Unix socket from this process, so that client and server do not share an interpreter.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from bench.figures import Figure, milliseconds, percentile
from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.resources import CONFIG_MAPS
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Request

OBJECTS = 10_000
WATCHERS = 1_000
EVENTS = 20


def config_map(name: str) -> dict[str, Any]:
    """About 1 KB, as a claim or a small ConfigMap has."""
    return {"metadata": {"name": name, "labels": {"bench": "yes"}}, "data": {"text": "x" * 800}}


async def creates_in_process(directory: Path) -> Figure:
    """Durable creates by 256 concurrent clients through the whole server, without HTTP."""
    store = await Store.open(directory / "in-process")
    server = ApiServer(store, SystemClock())
    await server.start()
    client = Client(InProcess(server))

    async def write(writer: int, count: int) -> None:
        for n in range(count):
            await client.create(CONFIG_MAPS, config_map(f"cm-{writer}-{n}"))

    await write(999, 20)
    start = time.perf_counter()
    await asyncio.gather(*(write(writer, 16) for writer in range(256)))
    rate = 256 * 16 / (time.perf_counter() - start)
    await server.stop()
    await store.close()
    what = "durable creates in process, 256 clients"
    return Figure(what, f"{rate:,.0f}/s", "≥ 1,000/s", rate >= 1000, (rate,))


def as_a_user() -> dict[str, str]:
    """Return the environment in which compiled modules are kept."""
    return {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}


@asynccontextmanager
async def up(directory: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, float]]:
    """Run `boilerhouse up`; yield the process and the seconds it took until all of it answered.

    What it prints comes last, when the REST API serves as well.
    """
    start = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "boilerhouse.main", "up", "--data", str(directory), "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=as_a_user(),
    )
    assert process.stdout is not None, "it was asked for"
    transport = Http(Config(server=f"unix://{directory / 'kube.sock'}"))
    try:
        while not await answers(transport, directory):
            if time.perf_counter() - start > 60:
                raise TimeoutError("boilerhouse up did not answer within a minute")
            await asyncio.sleep(0.01)
        await asyncio.wait_for(process.stdout.readline(), 60)
        yield process, time.perf_counter() - start
    finally:
        await transport.close()
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def answers(transport: Http, directory: Path) -> bool:
    if not (directory / "kube.sock").exists():
        return False
    try:
        return (await transport.request(Request("GET", "/readyz"), timeout=1)).status == 200
    except Exception:  # noqa: BLE001 - whatever it is, the server is not there yet
        return False


async def starts(directory: Path) -> list[Figure]:
    """Start again and again with the same data, and look at the memory of an idle process."""
    times = []
    # The first one compiles modules and makes certificates; it is not counted.
    async with up(directory / "start"):
        pass
    for _ in range(7):
        async with up(directory / "start") as (process, seconds):
            times.append(seconds)
            await asyncio.sleep(1)
            resident = memory(process.pid)
    middle = statistics.median(times)
    value = f"median {middle:.2f} s, worst {max(times):.2f} s"
    return [
        Figure("start to serving, seven times", value, "≤ 1.5 s", middle <= 1.5, (*times,)),
        Figure("memory when idle", f"{resident:.0f} MiB", "≤ 100 MiB", resident <= 100),
    ]


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


async def over_http(directory: Path) -> list[Figure]:
    home = directory / "http"
    async with up(home) as (process, _):
        client = Client(Http(Config(server=f"unix://{home / 'kube.sock'}")))
        try:
            found = [await no_op(client), *await watches(home, client)]
            await fill(client)
            found += [await lists(client)]
            resident = memory(process.pid)
            found.append(Figure(f"memory with {OBJECTS:,} objects", f"{resident:.0f} MiB"))
            return found
        finally:
            await client.close()


async def no_op(client: Client) -> Figure:
    times = []
    for _ in range(500):
        start = time.perf_counter()
        await client.transport.request(Request("GET", "/readyz"))
        times.append(time.perf_counter() - start)
    return Figure("yardstick: a request that does nothing", milliseconds(times), raw=(*times,))


async def fill(client: Client) -> None:
    async def write(writer: int) -> None:
        for n in range(OBJECTS // 50):
            await client.create(CONFIG_MAPS, config_map(f"cm-{writer}-{n}"))

    await asyncio.gather(*(write(writer) for writer in range(50)))


async def lists(client: Client) -> Figure:
    times = []
    size = 0
    for _ in range(5):
        start = time.perf_counter()
        reply = await client.transport.request(
            Request("GET", "/api/v1/namespaces/default/configmaps"), timeout=30
        )
        times.append(time.perf_counter() - start)
        size = len(reply.body)
    worst = max(times)
    what = f"list of {OBJECTS:,} objects over HTTP, {size / 2**20:.0f} MiB, worst of five"
    return Figure(what, f"{worst:.3f} s", "≤ 0.5 s", worst <= 0.5, (*times,))


class Watchers:
    """As many watches as there are connections, read by callbacks.

    A task and a stream for each would take the client longer than the server needs, on the same
    machine: it is the server that is measured.
    """

    def __init__(self) -> None:
        self.added = self.waiting = 0
        self.sent = 0.0
        self.times: list[float] = []
        self.everyone = asyncio.Event()

    def line(self, line: bytes) -> None:
        """Take note of a whole line that a watcher has read."""
        if line.startswith(b'{"type":"ADDED"'):
            self.added += 1
        elif line.startswith(b'{"type":"MODIFIED"'):
            self.times.append(time.perf_counter() - self.sent)
            self.waiting -= 1
        else:
            return
        if self.waiting == 0 and self.added == WATCHERS:
            self.everyone.set()


class Watcher(asyncio.Protocol):
    """One watch of ConfigMaps on a connection of its own."""

    def __init__(self, all_of_them: Watchers) -> None:
        self._all = all_of_them
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        path = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=300"
        request = f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode()
        cast("asyncio.Transport", transport).write(request)

    def data_received(self, data: bytes) -> None:
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            self._all.line(line)


async def watches(home: Path, client: Client) -> list[Figure]:
    """From sending a write until each of the watchers has read its event."""
    await client.create(CONFIG_MAPS, config_map("watched"))
    loop, watchers, opened = asyncio.get_running_loop(), Watchers(), []
    for _ in range(WATCHERS):
        transport, _ = await loop.create_unix_connection(
            lambda: Watcher(watchers), str(home / "kube.sock")
        )
        opened.append(transport)
    await asyncio.wait_for(watchers.everyone.wait(), 60)
    for n in range(EVENTS):
        watchers.waiting = WATCHERS
        watchers.everyone.clear()
        watchers.sent = time.perf_counter()
        await client.merge_patch(CONFIG_MAPS, "watched", {"data": {"n": str(n)}})
        await asyncio.wait_for(watchers.everyone.wait(), 60)
    for transport in opened:
        transport.close()
    times = watchers.times
    p99 = percentile(times, 0.99)
    what = f"{WATCHERS:,} watchers over HTTP, from write to event"
    return [Figure(what, milliseconds(times), "p99 ≤ 100 ms", p99 <= 0.1, (*times,))]


async def figures(directory: Path) -> list[Figure]:
    return [
        await creates_in_process(directory),
        *await over_http(directory),
        *await starts(directory),
    ]
