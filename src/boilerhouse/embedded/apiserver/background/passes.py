"""Passes over what is queued: each key once, whatever becomes of the others.

enqueue ─► keys, merged ─► work ─┬─► done
             ▲                   └─► raised: Faults ─┐
             └──────────── again, later ◄────────────┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

from boilerhouse.embedded.apiserver.background.faults import Faults

K = TypeVar("K", bound=Hashable)


class Passes(Generic[K]):
    """A queue of keys and the work on each; `at_once` many at a time."""

    def __init__(self, part: str, work: Callable[[K], Awaitable[None]], *, at_once: int = 1):
        self.faults = Faults(part)
        self._work = work
        self._at_once = at_once
        self._queue: dict[K, None] = {}
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._news = asyncio.Event()

    def enqueue(self, *keys: K) -> None:
        for key in keys:
            if (timer := self._later.pop(key, None)) is not None:
                timer.cancel()
            self._queue[key] = None
        if keys:
            self._news.set()

    async def run(self) -> None:
        """Work on what is queued, for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                batch = list(islice(self._queue, self._at_once))
                for key in batch:
                    del self._queue[key]
                if len(batch) == 1:  # as nearly always: no task of its own for it
                    await self._attempt(batch[0])
                else:
                    await asyncio.gather(*[self._attempt(key) for key in batch])

    async def _attempt(self, key: K) -> None:
        try:
            await self._work(key)
        except Exception as error:  # noqa: BLE001  told by Faults; one key must not end all passes
            delay = self.faults.failed(key, error)
            if key not in self._queue:
                loop = asyncio.get_running_loop()
                self._later[key] = loop.call_later(delay, self.enqueue, key)
        else:
            self.faults.worked(key)
