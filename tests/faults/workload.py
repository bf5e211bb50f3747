"""Several writers and a watcher on one store, telling what they try, what they got, what they saw.

workload ──► tell("try" | "ack" | "seen" | "open", …) ──► ledger.py

Runs in a process that will be killed or lose its power, so it imports the store and nothing else.
Each single writer owns one object and each group writer three that it only ever writes together.
Every write carries a step number that is never used twice. Some are answered deferred of the disk:
the write that follows stands for them, so they are told of when that one is acknowledged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from boilerhouse.embedded.apiserver.storage.store import (
    Key,
    Overrun,
    Put,
    Remove,
    Store,
    Stored,
    StoreFailed,
)

SINGLES = 5
GROUPS = 3
PARTS = ("left", "middle", "right")
HISTORY = 400

Tell = Callable[..., None]


def key_of(name: str) -> Key:
    return Key("pods", "default", name)


class Workload:
    def __init__(self, run: int, seed: int, steps: int | None, tell: Tell) -> None:
        self._random = random.Random(seed)
        self._run = run
        self._steps = steps
        self._tell = tell

    async def work(self, directory: Path) -> None:
        """Write until killed, or each writer this many steps, then close."""
        store = await Store.open(directory, history=HISTORY)
        self._tell("open", store.revision)
        watching = asyncio.create_task(self._watch(store))
        names = [[f"single-{n}"] for n in range(SINGLES)]
        names += [[f"group-{n}-{part}" for part in PARTS] for n in range(GROUPS)]
        await asyncio.gather(*(self._write(store, n, group) for n, group in enumerate(names)))
        await store.close()
        await watching

    async def _watch(self, store: Store) -> None:
        while True:
            try:
                async for change in store.watch("pods", store.revision):
                    step = change.object.body["spec"]["step"]
                    self._tell("seen", change.key.name, change.type, step, change.revision)
                return
            except Overrun:  # broken off, as what was answered deferred never came to be
                continue

    async def _write(self, store: Store, writer: int, names: list[str]) -> None:
        count = 0
        while self._steps is None or count < self._steps:
            # One to three writes on top of each other before the first is durable.
            waiting = []
            deferred = self._random.random() < 0.5
            writes = self._random.randint(1, 3)
            for n in range(writes):
                count += 1
                step = (self._run * 100 + writer) * 1_000_000 + count
                future = self._submit(store, step, names, deferred=deferred and n < writes - 1)
                waiting.append((step, future))
            if deferred and not await _is_stored(waiting[-1][1]):
                continue
            for step, future in waiting:
                if await _is_stored(future):
                    for stored in future.result():
                        self._tell("ack", stored.key.name, step, stored.revision)

    def _submit(
        self, store: Store, step: int, names: list[str], *, deferred: bool
    ) -> asyncio.Future[list[Stored]]:
        remove = self._random.random() < 0.15 and store.head(key_of(names[0])) is not None
        padding = "x" * self._random.choice((10, 300, 3000))
        write = Remove if remove else Put
        writes = [
            write(
                key_of(name), {"metadata": {"name": name}, "spec": {"step": step, "text": padding}}
            )
            for name in names
        ]
        for name in names:
            self._tell("try", name, "remove" if remove else "put", step)
        return store.submit(*writes, deferred=deferred)


async def _is_stored(future: asyncio.Future[list[Stored]]) -> bool:
    """Wait for an answer; whether it promises something."""
    try:
        await future
    except StoreFailed:
        return False
    return True
