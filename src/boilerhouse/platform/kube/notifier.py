"""Waiting for one object to change, without polling and without a subscription per waiter.

informer ─► ChangeNotifier (one subscription) ─► whoever waits for that key
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import Key

T = TypeVar("T", bound=Object)


class ChangeNotifier(Generic[T]):
    """News of an informer's objects by key."""

    def __init__(self, informer: Informer[T]) -> None:
        self._waiting: dict[Key, set[asyncio.Future[None]]] = {}
        informer.subscribe(self._changed)

    async def wait_until(self, key: Key, holds: Callable[[], bool]) -> None:
        """Wait until `holds`, asked now, after every change of this object, and when told."""
        while not holds():
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(key, set())
            waiting.add(turn)
            try:
                await turn
            finally:
                waiting.discard(turn)
                if not waiting and self._waiting.get(key) is waiting:
                    del self._waiting[key]

    def notify(self, key: Key) -> None:
        """Say that something else has changed that whoever waits for this object looks at."""
        for turn in self._waiting.get(key, ()):
            if not turn.done():
                turn.set_result(None)

    def _changed(self, change: Change[T]) -> None:
        self.notify(change.key)
