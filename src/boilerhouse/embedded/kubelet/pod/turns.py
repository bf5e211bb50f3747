"""Turns of Pods: those of a priority start and end at once, the others a few at a time.

PodWorker ─► Turns.turn     ─► (priority 0) a place, and a clear way ─► sandbox, containers
          ─► Turns.piece    ─► (priority 0) a clear way ─► its status, its deletion
          ─► Turns.cleaning ─► a place, and a clear way ─► its directories are removed

A Pod's start is the heaviest thing that happens here: processes, namespaces, a dozen writes. So of
Pods in the background few start beside each other, and none begins while there is work in the
foreground (priority.py says for how long at most). Fifty Pods that end at once have a few writes
each, and thousands of files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.loop.priority import Gate

BESIDE = 4  # Pods in the background, starting at one time
CLEANED = 2  # Pods whose directories are removed at one time
START_SECONDS = 2.0  # seconds for which one that does not get ready keeps the next from starting

# The priority of a Pod, of its start or (True) of its end; 0: it is in the background.
Priority = Callable[[ObjectMeta, bool], int]


class Turns:
    """Shared by all Pods of a node."""

    def __init__(self, gate: Gate, priority: Priority) -> None:
        self._gate = gate
        self._priority = priority
        self._places = asyncio.Semaphore(BESIDE)
        self._cleaning = asyncio.Semaphore(CLEANED)

    def can_wait(self, pod: ObjectMeta, *, ending: bool) -> bool:
        """Whether the start of a Pod, or its end, is in the background."""
        return self._priority(pod, ending) <= 0

    @asynccontextmanager
    async def piece(self, pod: ObjectMeta) -> AsyncGenerator[None]:
        """Wait until a small thing may be done for this Pod."""
        if not self.can_wait(pod, ending=pod.deletion_timestamp is not None):
            yield
            return
        await self._gate.turn()
        with self._gate.background():
            yield

    @asynccontextmanager
    async def cleaning(self) -> AsyncGenerator[None]:
        """Wait until what a Pod left behind may be removed."""
        async with self._cleaning:
            await self._gate.turn()
            yield

    @asynccontextmanager
    async def turn(self, pod: ObjectMeta) -> AsyncGenerator[None]:
        """Wait for this Pod's turn; it lasts until the Pod has started, or has taken too long."""
        if not self.can_wait(pod, ending=False):
            yield
            return
        await self._places.acquire()
        free = True

        def leave() -> None:
            nonlocal free
            if free:
                free = False
                late.cancel()
                self._places.release()

        late = asyncio.get_running_loop().call_later(START_SECONDS + self._gate.longest, leave)
        try:
            await self._gate.turn()
            yield
        finally:
            leave()
