"""Work that goes on whoever waits for it.

ask(key) ─► a new job, or the one that runs ─► its result, or None: still running, ask again

A save must not stop because the operator that asked for it was restarted, nor run twice because it
was asked for again. And no call waits for minutes: a connection to a machine that has vanished
would never end, so who asks is told to ask again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from boilerhouse.agent.protocol import Refused

log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Job(Generic[R]):
    order: object
    task: asyncio.Task[R]


class Jobs(Generic[R]):
    """Jobs of one kind: so many work at a time, in the order they came, and so many may wait."""

    def __init__(self, name: str, *, at_once: int, limit: int, patience: float) -> None:
        self._name = name
        self._places = asyncio.Semaphore(at_once)  # first come, first served
        self._limit = limit
        self._patience = patience
        self._running: dict[Hashable, _Job[R]] = {}

    async def ask(
        self, key: Hashable, order: object, work: Callable[[], Coroutine[Any, Any, R]]
    ) -> R | None:
        """Return what the job of this key gives; None if it takes longer than a call should."""
        job = self._running.get(key)
        if job is None:
            job = self._begin(key, order, work)
        elif job.order != order:
            raise Refused(409, "other-order", f"another {self._name} of it is under way")
        await asyncio.wait({job.task}, timeout=self._patience)
        if not job.task.done():
            return None
        if job.task.cancelled():
            raise Refused(503, "stopping", "the helper stops; ask again")
        return job.task.result()

    async def close(self) -> None:
        """Cut off what is under way."""
        tasks = [job.task for job in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(
        self, key: Hashable, order: object, work: Callable[[], Coroutine[Any, Any, R]]
    ) -> _Job[R]:
        if len(self._running) >= self._limit:
            raise Refused(503, "busy", "the helper has too much to do; try again")
        task = asyncio.create_task(self._in_turn(work), name=f"{self._name} {key}")
        job = self._running[key] = _Job(order, task)

        def ended(task: asyncio.Task[R]) -> None:
            del self._running[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("%s failed: %s", self._name, error)  # who asked may be gone

        task.add_done_callback(ended)
        return job

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        async with self._places:
            return await work()
