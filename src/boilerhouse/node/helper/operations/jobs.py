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

from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

R = TypeVar("R")


class Place:
    """A job's place among those that work at a time. One that only waits may leave it meanwhile."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = False
        self.left = asyncio.Event()

    async def take(self) -> None:
        """Wait for a place, unless there is one already."""
        if not self._held:
            await self._places.acquire()
            self._held = True

    def leave(self) -> None:
        """Give it to the next, until `take`. May be repeated."""
        if self._held:
            self._places.release()
            self._held = False
            self.left.set()


@dataclass(frozen=True, slots=True)
class _Job(Generic[R]):
    order: object
    task: asyncio.Task[R]
    place: Place


Work = Callable[[Place], Coroutine[Any, Any, R]]


class Jobs(Generic[R]):
    """Jobs of one kind: so many work at a time, in the order they came, and so many may wait."""

    def __init__(self, name: str, *, at_once: int, limit: int, patience: float) -> None:
        self._name = name
        self._places = asyncio.Semaphore(at_once)  # first come, first served
        self._limit = limit
        self._patience = patience
        self._running: dict[Hashable, _Job[R]] = {}

    async def ask(
        self, key: Hashable, order: object, work: Work[R], *, until_left: bool = False
    ) -> R | None:
        """Return what the job of this key gives; None if it takes longer than a call should.

        None also, with `until_left`, as soon as it has left its place once.
        """
        job = self._running.get(key)
        if job is None:
            job = self._begin(key, order, work)
        elif job.order != order:
            raise Refused(409, "other-order", f"another {self._name} of it is under way")
        left = asyncio.create_task(job.place.left.wait()) if until_left else job.task
        await asyncio.wait(
            {job.task, left}, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED
        )
        if left is not job.task:
            left.cancel()
        if not job.task.done():
            return None
        if job.task.cancelled():
            raise Refused(503, "stopping", "the helper stops; ask again")
        return job.task.result()

    def left(self, key: Hashable) -> bool:
        """Tell whether the job of this key has left its place once."""
        job = self._running.get(key)
        return job is not None and job.place.left.is_set()

    async def close(self) -> None:
        """Cut off what is under way."""
        tasks = [job.task for job in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: Hashable, order: object, work: Work[R]) -> _Job[R]:
        if len(self._running) >= self._limit:
            raise Refused(503, "busy", "the helper has too much to do; try again")
        place = Place(self._places)
        task = asyncio.create_task(self._in_turn(work, place), name=f"{self._name} {key}")
        job = self._running[key] = _Job(order, task, place)

        def ended(task: asyncio.Task[R]) -> None:
            del self._running[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("%s failed: %s", self._name, error)  # who asked may be gone

        task.add_done_callback(ended)
        return job

    async def _in_turn(self, work: Work[R], place: Place) -> R:
        await place.take()
        try:
            return await work(place)
        finally:
            place.leave()
