"""Claims over HTTP on one machine, by tier: existing, pool, cold; one by one, many, all at once.

The tenant's process is `sleep`, started by the kubelet in its sandbox: its own start is not ours to
measure. Refills are waited for between measurements and measured apart. The callers are another
process than the server, and what they cost themselves is said too: on two processors they take from
what they measure. Two yardsticks of the same run: a request that does nothing, and the commits of a
warm claim without anything around them.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.api import as_a_user
from bench.figures import Figure, interpreter, milliseconds, percentile
from bench.keepalive import Connection
from bench.store import key, pod
from boilerhouse.embedded.apiserver.storage.store import Put, Store

WARM = 300
COMMITS = 3  # of a warm claim, one after another: the Claim, the Pod, the Claim's status
TENANTS = itertools.count(1)
API = "/api/v1"


@asynccontextmanager
async def up(directory: Path) -> AsyncIterator[int]:
    """Run `boilerhouse up` on a free port; yield the port of its REST API."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "boilerhouse.main", "up"),
        *("--data", str(directory), "--port", "0", "--kube-port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=as_a_user(),
    )
    assert process.stdout is not None
    try:
        yield await asyncio.wait_for(announced(process.stdout), 60)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def announced(lines: asyncio.StreamReader) -> int:
    """Return the port that `up` says its REST API is on."""
    async for line in lines:
        if found := re.search(rb"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("boilerhouse up ended before it was up")


def workload(name: str, vcpus: float) -> dict[str, Any]:
    spec = {
        "version": "1",
        "image": {"ref": "host"},
        "resources": {"vcpus": vcpus, "memoryMb": 8, "diskGb": 1},
        "filesystem": {"overlayDirs": ["/workspace"]},
        "entrypoint": {"cmd": "sleep", "args": ["1000000"]},
    }
    return {"name": name, "spec": spec}


async def ok(connection: Connection, method: str, path: str, body: object = None) -> Any:
    status, answer = await connection.call(method, API + path, body)
    if status >= 300:
        raise RuntimeError(f"{method} {path}: {status} {answer}")
    return answer


async def warm(connection: Connection, size: int) -> Figure:
    """Have `size` warm instances, however long it takes; say how long."""
    began = time.perf_counter()
    spec = {"workloadRef": "warm", "size": size, "maxFillConcurrency": 8}
    await ok(connection, "PUT", "/pools/warm", {"spec": spec})
    for _ in range(2400):
        pool = await ok(connection, "GET", "/pools/warm")
        if (pool.get("status") or {}).get("ready", 0) >= size:
            took = time.perf_counter() - began
            return Figure(f"  the pool had {size} ready after", f"{took:.1f} s")
        await asyncio.sleep(0.05)
    raise TimeoutError(f"the pool does not fill: {pool}")


class Timed(list[tuple[float, dict[str, Any]]]):
    """Claims with the seconds each took for its caller."""

    @property
    def seconds(self) -> list[float]:
        return [seconds for seconds, _ in self]

    def shares(self) -> str:
        """Say which stage takes which share of the server's time."""
        stages: dict[str, float] = {}
        for _, answer in self:
            for stage, milli in answer["timings"].items():
                stages[stage] = stages.get(stage, 0) + milli
        total = stages.pop("total", 0) or 1
        return ", ".join(f"{name} {value / total:.0%}" for name, value in stages.items())


async def claim(connection: Connection, tenant: str, name: str, into: Timed) -> None:
    began = time.perf_counter()
    answer = await ok(connection, "POST", f"/tenants/{tenant}/claim", {"workload": name})
    into.append((time.perf_counter() - began, answer))


async def in_turn(port: int, tenants: Iterable[str], name: str = "warm") -> Timed:
    timed = Timed()
    async with Connection(port) as connection:
        for tenant in tenants:
            await claim(connection, tenant, name, timed)
    return timed


def fresh(count: int) -> list[str]:
    return [f"tenant-{next(TENANTS)}" for _ in range(count)]


async def release_all(port: int) -> None:
    async with Connection(port) as connection:
        for tenant in await ok(connection, "GET", "/tenants"):
            for held in tenant["claims"]:
                body = {"workload": held["workloadRef"]}
                await ok(connection, "POST", f"/tenants/{tenant['tenantId']}/release", body)


async def figures(directory: Path) -> list[Figure]:
    async with up(directory / "claims") as port, Connection(port) as connection:
        await ok(connection, "POST", "/workloads", workload("warm", 0.05))
        await ok(connection, "POST", "/workloads", workload("cold", 1))
        found = [interpreter("at first"), await no_op(connection)]
        found.append(await bare_commits(directory / "commits"))
        found.append(await warm(connection, 60))
        one_by_one = await in_turn(port, fresh(50))
        assert {answer["source"] for _, answer in one_by_one} == {"pool"}
        found += latency("pool, one by one", one_by_one, 0.003, 0.010)
        again = await in_turn(port, [answer["tenantId"] for _, answer in one_by_one] * 4)
        found += latency("existing, one by one", again, None, 0.005)
        await release_all(port)

        found.append(await warm(connection, WARM))
        found += await many(port)
        await release_all(port)
        found.append(await warm(connection, WARM))
        found += await burst(port)
        await ok(connection, "PUT", "/pools/warm", {"spec": {"workloadRef": "warm", "size": 0}})
        await release_all(port)

        cold = await in_turn(port, fresh(30), "cold")
        assert {answer["source"] for _, answer in cold} == {"cold"}
        found += latency("cold, one by one, image host", cold, 0.060, None)
        found.append(await execs(connection, cold[0][1]["instanceId"]))
        found.append(interpreter("at last"))
        return found


async def no_op(connection: Connection) -> Figure:
    times = []
    for _ in range(200):
        began = time.perf_counter()
        await ok(connection, "GET", "/health")
        times.append(time.perf_counter() - began)
    what = "yardstick: a REST request that does nothing"
    return Figure(what, milliseconds(times), raw=(*times,))


async def bare_commits(directory: Path) -> Figure:
    """Write what a warm claim writes, one after another, with nothing else to do."""
    store = await Store.open(directory)
    times = []
    for n in range(100):
        began = time.perf_counter()
        for _ in range(COMMITS):
            await store.submit(Put(key(f"pod-{n}"), pod(f"pod-{n}")))
        times.append(time.perf_counter() - began)
    await store.close()
    what = f"yardstick: the {COMMITS} commits of a warm claim, bare"
    return Figure(what, milliseconds(times), raw=(*times,))


def latency(what: str, timed: Timed, p50: float | None, p99: float | None) -> list[Figure]:
    seconds = timed.seconds
    wanted = [("p50", p50, statistics.median(seconds)), ("p99", p99, percentile(seconds, 0.99))]
    budget = ", ".join(f"{name} ≤ {limit * 1e3:g} ms" for name, limit, _ in wanted if limit)
    met = all(value <= limit for _, limit, value in wanted if limit)
    return [
        Figure(f"claim: {what}", milliseconds(seconds), budget, met, (*seconds,)),
        Figure("  of which", timed.shares()),
    ]


async def many(port: int, clients: int = 16) -> list[Figure]:
    """Claims by a few callers as fast as they can, until the pool is empty."""
    tenants = fresh(WARM)
    own = time.process_time()
    began = time.perf_counter()
    parts = await asyncio.gather(*(in_turn(port, tenants[n::clients]) for n in range(clients)))
    rate = WARM / (time.perf_counter() - began)
    own = time.process_time() - own
    timed = Timed(entry for part in parts for entry in part)
    warm_ones = sum(answer["source"] == "pool" for _, answer in timed)
    what = f"claim: {WARM} by {clients} callers, {warm_ones} from the pool"
    return [
        Figure(what, f"{rate:,.0f}/s", "≥ 500/s", rate >= 500, (*timed.seconds,)),
        Figure("  latency of one", milliseconds(timed.seconds)),
        Figure("  of which", timed.shares()),
        Figure("  the callers' own processor time for one", f"{own / WARM * 1e3:.2f} ms"),
    ]


async def burst(port: int) -> list[Figure]:
    """All at once, on connections that are open already."""
    tenants = fresh(WARM)
    timed = Timed()
    connections = [await Connection(port).__aenter__() for _ in tenants]
    began = time.perf_counter()
    await asyncio.gather(
        *(claim(c, tenant, "warm", timed) for c, tenant in zip(connections, tenants, strict=True))
    )
    took = time.perf_counter() - began
    for connection in connections:
        await connection.__aexit__(None, None, None)
    instances = {answer["instanceId"] for _, answer in timed}
    assert len(instances) == WARM, "an instance was handed out twice"
    warm_ones = sum(answer["source"] == "pool" for _, answer in timed)
    what = f"claim: {WARM} at once on {WARM} warm instances, {warm_ones} from the pool"
    return [
        Figure(what, f"{took:.2f} s", "≤ 1 s", took <= 1, (*timed.seconds,)),
        Figure("  of which", timed.shares()),
    ]


async def execs(connection: Connection, instance: str) -> Figure:
    times = []
    for _ in range(50):
        began = time.perf_counter()
        await ok(connection, "POST", f"/instances/{instance}/exec", {"command": ["true"]})
        times.append(time.perf_counter() - began)
    met = statistics.median(times) <= 0.015
    return Figure("exec of true, round trip", milliseconds(times), "p50 ≤ 15 ms", met, (*times,))
