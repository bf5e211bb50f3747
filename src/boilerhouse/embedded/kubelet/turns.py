"""Whose turn it is to start: Pods that somebody waits for at once, the others a few at a time.

PodWorker ─► Turns.turn ─► (nobody waits for it) a place, and a clear way ─► sandbox, containers

A Pod's start is the heaviest thing that happens here: processes, namespaces, a dozen writes. A warm
instance of a pool has nobody who waits for it; so few of them start beside each other, and none
begins while a claim is being answered (loop/rightofway.py says for how long at most).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from boilerhouse.core import names
from boilerhouse.kube.kinds import ObjectMeta
from boilerhouse.loop.rightofway import RightOfWay

BESIDE = 4  # Pods that nobody waits for, starting at one time
LONGEST = 2.0  # seconds for which one that does not get ready keeps the next from starting


def is_spare(pod: ObjectMeta) -> bool:
    """Whether a Pod is for whoever comes, so that nobody waits for it yet."""
    return names.POOL in pod.labels and names.CLAIM not in pod.annotations


class Turns:
    """Shared by all Pods of a node."""

    def __init__(self, way: RightOfWay) -> None:
        self._way = way
        self._places = asyncio.Semaphore(BESIDE)

    @asynccontextmanager
    async def turn(self, pod: ObjectMeta) -> AsyncGenerator[None]:
        """Wait for this Pod's turn; it lasts until the Pod has started, or has taken too long."""
        if not is_spare(pod):
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

        late = asyncio.get_running_loop().call_later(LONGEST + self._way.longest, leave)
        try:
            await self._way.clear()
            yield
        finally:
            leave()
