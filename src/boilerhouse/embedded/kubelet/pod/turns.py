"""Whose turn it is: Pods that somebody waits for at once, the others a few at a time.

PodWorker ─► Turns.turn     ─► (nobody waits for it) a place, and a clear way ─► sandbox, containers
          ─► Turns.piece    ─► (nobody waits for it) a clear way ─► its status, its deletion
          ─► Turns.cleaning ─► a place, and a clear way ─► its directories are removed

A Pod's start is the heaviest thing that happens here: processes, namespaces, a dozen writes. A warm
instance of a pool has nobody who waits for it; so few of them start beside each other, and none
begins while a claim is being answered (rightofway.py says for how long at most). Fifty Pods
that end at once have a few writes each, and thousands of files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager

from boilerhouse.core import names
from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.rightofway import RightOfWay

BESIDE = 4  # Pods that nobody waits for, starting at one time
CLEANED = 2  # Pods whose directories are removed at one time
LONGEST = 2.0  # seconds for which one that does not get ready keeps the next from starting


def is_spare(pod: ObjectMeta) -> bool:
    """Whether a Pod is for whoever comes, so that nobody waits for it yet."""
    return names.POOL in pod.labels and names.CLAIM not in pod.annotations


class Turns:
    """Shared by all Pods of a node."""

    def __init__(self, way: RightOfWay) -> None:
        self._way = way
        self._places = asyncio.Semaphore(BESIDE)
        self._cleaning = asyncio.Semaphore(CLEANED)

    def can_wait(self, pod: ObjectMeta, *, ends: bool) -> bool:
        """Whether nobody waits for a Pod: for its start, or for its end to claim another."""
        if not ends:
            return is_spare(pod)
        claim = pod.annotations.get(names.CLAIM, "").partition("/")[0]
        return not self._way.is_wanted(Key(pod.namespace, claim))

    @asynccontextmanager
    async def piece(self, pod: ObjectMeta) -> AsyncGenerator[None]:
        """Wait until a small thing may be done for this Pod."""
        if not self.can_wait(pod, ends=pod.deletion_timestamp is not None):
            yield
            return
        await self._way.clear()
        with self._way.working():
            yield

    def aside(self, can_wait: Callable[[], bool]) -> AbstractContextManager[None]:
        """Let all that is done for a Pod step aside for claims, while it can wait."""
        return self._way.aside(can_wait)

    @asynccontextmanager
    async def cleaning(self) -> AsyncGenerator[None]:
        """Wait until what a Pod left behind may be removed."""
        async with self._cleaning:
            await self._way.clear()
            yield

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
