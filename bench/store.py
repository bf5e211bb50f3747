"""The object store by itself: durable creates, watch fan-out, opening, memory.

    python -m bench store

Every figure stands beside a yardstick of the same run: what the bare disk does, because a commit
cannot be faster than an fsync.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, milliseconds, percentile
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Store
from boilerhouse.run.garbage import resident

OBJECTS = 10_000
WATCHERS = 1_000
EVENTS = 200


def pod(name: str) -> dict[str, Any]:
    """A Pod of about 1.3 KB, as a small workload has it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {f"boilerhouse.dev/label-{n}": f"value-{n}" for n in range(8)},
            "annotations": {"boilerhouse.dev/spec": "x" * 300},
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "host",
                    "env": [{"name": f"NAME_{n}", "value": f"value-{n}"} for n in range(10)],
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                }
            ]
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def key(name: str) -> Key:
    return Key("pods", "default", name)


def bare_sync(directory: Path) -> Figure:
    """Append a page and fdatasync, one after the other."""
    fd = os.open(directory / "yardstick", os.O_CREAT | os.O_WRONLY)
    times = []
    for _ in range(300):
        start = time.perf_counter()
        os.write(fd, b"x" * 4096)
        os.fdatasync(fd)
        times.append(time.perf_counter() - start)
    os.close(fd)
    return Figure("yardstick: write 4 KiB + fdatasync", milliseconds(times))


async def creates(directory: Path, writers: int, count: int) -> list[Figure]:
    store = await Store.open(directory / f"creates-{writers}")
    times: list[float] = []

    async def write(writer: int) -> None:
        for n in range(count // writers):
            start = time.perf_counter()
            await store.submit(Put(key(f"pod-{writer}-{n}"), pod(f"pod-{writer}-{n}")))
            times.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(write(writer) for writer in range(writers)))
    rate = len(times) / (time.perf_counter() - start)
    await store.close()
    judged = ("≥ 1,000/s", rate >= 1000) if writers > 1 else ("", None)
    return [
        Figure(f"durable creates, {writers} writers", f"{rate:,.0f}/s", *judged),
        Figure(f"latency of one, {writers} writers", milliseconds(times)),
    ]


async def fan_out(directory: Path) -> Figure:
    """From the call of submit until a watcher holds the encoded line, over all of them."""
    store = await Store.open(directory / "watch")
    times: list[float] = []
    started = 0.0

    async def read(watch: Any) -> None:
        for _ in range(EVENTS):
            (await anext(watch)).event_line()
            times.append(time.perf_counter() - started)

    readers = [asyncio.create_task(read(store.watch("pods", 1))) for _ in range(WATCHERS)]
    await asyncio.sleep(0)
    for _ in range(EVENTS):
        started = time.perf_counter()
        await store.submit(Put(key("watched"), pod("watched")))
        await asyncio.sleep(0.05)
    await asyncio.gather(*readers)
    await store.close()
    met = percentile(times, 0.99) <= 0.1
    return Figure(f"{WATCHERS:,} watchers get an event", milliseconds(times), "p99 ≤ 100 ms", met)


async def reopen(directory: Path) -> list[Figure]:
    """Open a store with live objects and a full history of changes to them."""
    path = directory / "reopen"
    store = await Store.open(path)
    for _ in range(2):
        for start in range(0, OBJECTS, 500):
            names = [f"pod-{n}" for n in range(start, start + 500)]
            await asyncio.gather(*(store.submit(Put(key(name), pod(name))) for name in names))
    size = len(store.scan("pods")[0].raw)
    await store.close()
    del store
    gc.collect()
    before = resident()
    start_time = time.perf_counter()
    store = await Store.open(path)
    opened = time.perf_counter() - start_time
    after = resident()
    start_time = time.perf_counter()
    listed = b",".join(stored.raw for stored in store.scan("pods"))
    scanned = time.perf_counter() - start_time
    await store.close()
    what = f"{OBJECTS:,} objects of {size:,} bytes and as many changes"
    return [
        Figure(f"open, {what}", f"{opened * 1e3:.0f} ms", "≤ 1 s", opened <= 1),
        Figure("memory of those", f"{(after - before) / 2**20:.0f} MiB"),
        Figure("list them as bytes", f"{scanned * 1e3:.1f} ms, {len(listed) / 2**20:.0f} MiB"),
    ]


async def figures(directory: Path) -> list[Figure]:
    found = [bare_sync(directory)]
    for writers, count in ((1, 300), (16, 4_000), (256, OBJECTS)):
        found += await creates(directory, writers, count)
    found.append(await fan_out(directory))
    return found + await reopen(directory)
