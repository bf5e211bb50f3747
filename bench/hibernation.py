"""Tenants that hibernate and come back on one machine, over HTTP, against plain tar in turns.

tar czf ─► put ─► claim (revive) ─► a change ─► release (hibernate) ─► claim ─► release (unchanged)

Everything is what a caller waits for: from the call to its answer, with the Pod gone or Active.
Helper and agents are part of `up`; their memory is how much `up` grew meanwhile, and what their
workers had.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from bench.archives import BYTES, FILES, plant
from bench.claims import API, Timed, claim, fresh, ok, up, warm, workload
from bench.figures import Figure, interpreter, milliseconds, percentile
from bench.keepalive import Connection

ROUNDS = 5
SMALL = 20
HIBERNATING = 50
EVERY = 0.1  # seconds between two claims
IDLE_CLAIMS = 100
MOST_CLAIMS = 200
MEMORY = 64 << 20


async def figures(directory: Path) -> list[Figure]:
    tree, archive = directory / "tree" / "workspace", directory / "tree.tar.gz"
    tree.mkdir(parents=True)
    await asyncio.to_thread(plant, tree, FILES, BYTES)
    small = directory / "small.tar.gz"
    await asyncio.to_thread(pack_small, directory / "small", small)
    async with up(directory / "data") as port, Connection(port) as connection:
        # Small ones for the crowd; where a start is measured it is not to wait for its processor.
        for name, vcpus in (("cold", 0.05), ("warm", 0.05), ("small", 1)):
            body = workload(name, vcpus)
            body["spec"]["filesystem"]["keepVersions"] = 1
            await ok(connection, "POST", "/workloads", body)
        # Before anything large is removed: what `large` says of ext4 is true of fifty files too.
        found = [interpreter("at first"), *await small_ones(connection, port, small)]
        found += await at_once(connection, port, small)
        found += await large(connection, port, tree, archive)
        found.append(interpreter("at last"))
        return found


def pack_small(directory: Path, archive: Path) -> None:
    """Make an archive of 1 MB of files that cannot be packed any smaller."""
    rng = random.Random(3)
    (directory / "workspace").mkdir(parents=True)
    for number in range(50):
        (directory / "workspace" / f"file-{number}").write_bytes(rng.randbytes(20_000))
    subprocess.run(["tar", "czf", archive, "-C", directory, "workspace"], check=True)
    shutil.rmtree(directory)


async def put(port: int, tenant: str, name: str, archive: Path) -> None:
    url = f"http://127.0.0.1:{port}{API}/tenants/{tenant}/workloads/{name}/snapshots"

    async def pieces() -> AsyncIterator[bytes]:
        with archive.open("rb") as file:
            while piece := file.read(256 << 10):
                yield piece

    async with httpx2.AsyncClient(timeout=300) as http:
        answer = await http.put(url, content=pieces())
    if answer.status_code != 201:
        raise RuntimeError(f"put: {answer.status_code} {answer.text}")


async def revive(connection: Connection, tenant: str, name: str, source: str) -> tuple[float, str]:
    began = time.perf_counter()
    answer = await ok(connection, "POST", f"/tenants/{tenant}/claim?wait=300", {"workload": name})
    took = time.perf_counter() - began
    if answer.get("source") != source:
        raise RuntimeError(f"not {source}: {answer}")
    return took, answer["instanceId"]


async def hibernate(connection: Connection, tenant: str, name: str) -> float:
    began = time.perf_counter()
    path = f"/tenants/{tenant}/release?wait=300"
    answer = await ok(connection, "POST", path, {"workload": name})
    took = time.perf_counter() - began
    if answer["phase"] != "Released" or not answer["snapshot"]["current"]:
        raise RuntimeError(f"not hibernated: {answer}")
    return took


async def change(connection: Connection, instance: str) -> None:
    command = ["sh", "-c", "date >> /workspace/changed"]
    done = await ok(connection, "POST", f"/instances/{instance}/exec", {"command": command})
    if done["exitCode"]:
        raise RuntimeError(f"nothing was changed: {done}")


async def tar(*arguments: str | Path) -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec("tar", *arguments)
    if await process.wait():
        raise RuntimeError(f"tar {arguments} failed")
    return time.perf_counter() - began


async def large(connection: Connection, port: int, tree: Path, archive: Path) -> list[Figure]:
    """Revive and hibernate a large overlay, and do the same with tar, in turns.

    Nothing is removed before all are revived: for minutes after an ext4 without a journal has lost
    many inodes it makes new ones slowly, and both would be measured by that alone. So is who comes
    back right after it was hibernated, which is told apart.
    """
    czf: list[float] = []
    xzf: list[float] = []
    revived: list[float] = []
    hibernated: list[float] = []
    back_again: list[float] = []
    same: list[float] = []
    out = tree.parent.parent / "out"
    tenants: dict[str, str] = {}
    async with memory_of(port) as memory:
        for number in range(ROUNDS):
            czf.append(await tar("czf", archive, "-C", tree.parent, tree.name))
            (out / str(number)).mkdir(parents=True)
            xzf.append(await tar("xzf", archive, "-C", out / str(number)))
            tenant = f"large-{number}"
            await put(port, tenant, "cold", archive)
            seconds, tenants[tenant] = await revive(connection, tenant, "cold", "cold+data")
            revived.append(seconds)
        for tenant, instance in tenants.items():
            await change(connection, instance)
            hibernated.append(await hibernate(connection, tenant, "cold"))
            seconds, _ = await revive(connection, tenant, "cold", "cold+data")
            back_again.append(seconds)
            same.append(await hibernate(connection, tenant, "cold"))
            await ok(connection, "DELETE", f"/tenants/{tenant}/workloads/cold/snapshots")
    await asyncio.to_thread(shutil.rmtree, out)
    what = f"{BYTES // 1_000_000} MB, {FILES:,} files"
    unchanged = statistics.median(same)
    return [
        against(f"hibernate {what}", hibernated, czf, "tar czf", 4),
        against(f"revive {what}", revived, xzf, "tar xzf", 1.3),
        Figure("  right after it was hibernated", f"{statistics.median(back_again):.2f} s"),
        Figure(
            "hibernate the same, unchanged",
            f"{unchanged:.2f} s",
            "≤ 0.2 s",
            unchanged <= 0.2,
            (*same,),
        ),
        Figure(
            "  memory of helper, agent and workers",
            f"{memory.most / 2**20:.0f} MiB",
            f"≤ {MEMORY >> 20} MiB",
            memory.most <= MEMORY,
        ),
    ]


def against(what: str, ours: list[float], theirs: list[float], name: str, budget: float) -> Figure:
    mine, other = statistics.median(ours), statistics.median(theirs)
    value = f"{mine:.2f} s, {other / mine:.1f} × faster than {other:.2f} s"
    return Figure(what, value, f"≥ {budget} × {name}", other / mine >= budget, (*ours, *theirs))


class Memory:
    """The most that a process grew by, and its workers had, at any look."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.start = resident(pid)
        self.most = 0

    def look(self) -> None:
        workers = 0
        for child in children(self.pid):
            with contextlib.suppress(OSError):
                if b"archive" in Path(f"/proc/{child}/cmdline").read_bytes():
                    # Those that are forked share what they did not change with their stem.
                    workers += resident(child) + sum(own(forked) for forked in children(child))
        self.most = max(self.most, resident(self.pid) - self.start + workers)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def own(pid: int) -> int:
    """Return how much memory a process has that it does not share."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kept = [line.split() for line in lines if line.startswith("Private_")]
        return sum(int(words[1]) for words in kept) << 10
    return 0


def resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def memory_of(port: int) -> AsyncIterator[Memory]:
    """Look at the memory of the server on a port, every few hundredths of a second."""
    memory = Memory(await asyncio.to_thread(listener, port))

    async def look() -> None:
        while True:
            await asyncio.to_thread(memory.look)
            await asyncio.sleep(0.03)

    looking = asyncio.create_task(look())
    try:
        yield memory
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


def listener(port: int) -> int:
    """Return which of our children has that port."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            name = f"socket:[{fields[9]}]"
            for child in (
                Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            ):
                for fd in Path(f"/proc/{child}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if str(fd.readlink()) == name:
                            return int(child)
    raise RuntimeError(f"nobody of ours has port {port}")


async def small_ones(connection: Connection, port: int, archive: Path) -> list[Figure]:
    """Revive a megabyte, cold and into a warm instance; hibernate it."""
    found = []
    await put(port, "small", "small", archive)
    for size, source in ((0, "cold+data"), (4, "pool+data")):
        spec = {"workloadRef": "small", "size": size, "maxFillConcurrency": 4}
        await ok(connection, "PUT", "/pools/small", {"spec": spec})
        there, back = [], []
        for _ in range(SMALL):
            await filled(connection, "small", size)
            seconds, instance = await revive(connection, "small", "small", source)
            back.append(seconds)
            await change(connection, instance)
            there.append(await hibernate(connection, "small", "small"))
        met = statistics.median(back) <= 0.06
        what = f"revive 1 MB, 50 files: {source}"
        found.append(Figure(what, milliseconds(back), "p50 ≤ 60 ms", met, (*back,)))
        found.append(Figure("  hibernate it", milliseconds(there), raw=(*there,)))
    await ok(connection, "PUT", "/pools/small", {"spec": {"workloadRef": "small", "size": 0}})
    return found


async def filled(connection: Connection, name: str, size: int) -> None:
    for _ in range(2400):
        pool = await ok(connection, "GET", f"/pools/{name}")
        if (pool.get("status") or {}).get("ready", 0) >= size:
            return
        await asyncio.sleep(0.02)
    raise TimeoutError("the pool does not fill")


async def at_once(connection: Connection, port: int, archive: Path) -> list[Figure]:
    """Warm claims while many hibernate, against warm claims with nothing else going on.

    Both at the same pace, so that they differ in nothing else. Those meanwhile are spread over all
    of the time that it takes, and so are requests that do nothing: these tell how long the event
    loop is busy with something else.
    """
    crowd = [f"crowd-{number}" for number in range(HIBERNATING)]
    for tenant in crowd:
        await put(port, tenant, "cold", archive)
        _, instance = await revive(connection, tenant, "cold", "cold+data")
        await change(connection, instance)
    await warm(connection, 60)
    idle = (await paced(port, IDLE_CLAIMS)).seconds
    await filled(connection, "warm", 60)
    nothing = await asking(port, 100)

    async def one(tenant: str) -> float:
        async with Connection(port) as own:
            return await hibernate(own, tenant, "cold")

    began = time.perf_counter()
    releasing = asyncio.gather(*(one(tenant) for tenant in crowd))
    meanwhile = asyncio.create_task(asking(port, until=releasing))
    busy = await paced(port, MOST_CLAIMS, until=releasing)
    await releasing
    took = time.perf_counter() - began
    during = await meanwhile
    ratio = percentile(busy.seconds, 0.99) / percentile(idle, 0.99)
    warm_ones = sum(answer["source"] == "pool" for _, answer in busy)
    what = f"claim: pool, while {HIBERNATING} hibernate ({len(busy)} claims, {warm_ones} warm)"
    raw = (*busy.seconds,)
    return [
        Figure(f"claim: pool, one every {EVERY} s, idle", milliseconds(idle), raw=(*idle,)),
        Figure(what, milliseconds(busy.seconds), "p99 ≤ 3 × idle", ratio <= 3, raw),
        Figure("  p99 against idle", f"{ratio:.1f} ×"),
        Figure("  a request that does nothing, idle", milliseconds(nothing), raw=(*nothing,)),
        Figure("  the same meanwhile", milliseconds(during), raw=(*during,)),
        Figure(f"  the {HIBERNATING} of 1 MB were hibernated in", f"{took:.1f} s"),
    ]


async def paced(port: int, most: int, until: asyncio.Future[list[float]] | None = None) -> Timed:
    """Claim for one tenant after another, with a pause."""
    timed = Timed()
    async with Connection(port) as connection:
        while len(timed) < most and not (until is not None and until.done()):
            await claim(connection, fresh(1)[0], "warm", timed)
            await asyncio.sleep(EVERY)
    return timed


async def asking(
    port: int, most: int = 100_000, until: asyncio.Future[list[float]] | None = None
) -> list[float]:
    """Ask for nothing again and again, with a pause."""
    times: list[float] = []
    async with Connection(port) as connection:
        while len(times) < most and not (until is not None and until.done()):
            began = time.perf_counter()
            await ok(connection, "GET", "/health")
            times.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)
    return times
