"""Event retention: by age and by number, so that memory is bounded whatever is told.

every minute, or when many were made ──► Events not repeated for an hour ──► removed
                                    └──► the oldest above a number ────────┘
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from boilerhouse.core.clock import Clock, parse_time
from boilerhouse.embedded.apiserver.background.faults import Faults
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.storage.change import Change
from boilerhouse.embedded.apiserver.storage.store import Store, Stored
from boilerhouse.embedded.apiserver.verbs.deletion import DeleteOptions
from boilerhouse.embedded.apiserver.verbs.removal import Removal

LIFETIME = timedelta(hours=1)
EVERY_SECONDS = 60.0
MOST = 5000  # Events in all,
MOST_OF_NAMESPACE = 4000  # and of one namespace, so that it does not push out those of all others
MADE = 500  # new ones after which it is looked whether there are too many
# In one turn of the loop, so that a claim that comes meanwhile waits for a millisecond or two.
LOOKED_AT = 200
REMOVED = 20


class Expiry:
    def __init__(self, store: Store, registry: Registry, clock: Clock, removal: Removal) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._removal = removal
        self._made = 0
        self._many = asyncio.Event()
        self.faults = Faults("expiry")

    async def run(self) -> None:
        """Remove what is past, for ever."""
        stop = self._store.follow(self._count)
        try:
            while True:
                self._made = 0
                self._many.clear()
                try:
                    await self.sweep()
                except Exception as error:  # noqa: BLE001  told by Faults; the next may work
                    self.faults.failed("sweep", error)
                    await asyncio.sleep(EVERY_SECONDS)
                    continue
                self.faults.worked("sweep")
                await self._until_due()
        finally:
            stop()

    def _count(self, changes: list[Change]) -> None:
        for change in changes:
            if change.key.resource == "events" and change.previous is None:
                self._made += 1
        if self._made >= MADE:
            self._many.set()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout(EVERY_SECONDS):
                await self._many.wait()
        except TimeoutError:
            pass

    async def sweep(self) -> None:
        """Remove the Events that were last heard of too long ago, and the oldest of too many."""
        kind = self._registry.of_resource("events")
        if kind is None:
            return
        there = [
            stored
            for stored in self._store.scan_head("events")
            if "deletionTimestamp" not in stored.body["metadata"]
        ]
        past = await self._past(there)
        gone = {stored.key for stored in past}
        past += surplus([stored for stored in there if stored.key not in gone])
        await self._remove(kind, past)

    async def _past(self, there: Sequence[Stored]) -> list[Stored]:
        limit = self._clock.now() - LIFETIME
        past: list[Stored] = []
        for start in range(0, len(there), LOOKED_AT):
            slice_ = there[start : start + LOOKED_AT]
            past += [stored for stored in slice_ if last_heard(stored.body) < limit]
            await asyncio.sleep(0)
        return past

    async def _remove(self, kind: Kind, past: Sequence[Stored]) -> None:
        for start in range(0, len(past), REMOVED):
            heads = [self._store.head(stored.key) for stored in past[start : start + REMOVED]]
            await asyncio.gather(
                *[self._removal.delete(kind, head, DeleteOptions()) for head in heads if head]
            )


def surplus(
    there: Sequence[Stored], most: int = MOST, most_of_namespace: int = MOST_OF_NAMESPACE
) -> list[Stored]:
    """Return those that were written longest ago, above the number in all and of a namespace."""
    if len(there) <= min(most, most_of_namespace):
        return []
    too_many = []
    kept, left = 0, Counter[str]()
    for stored in sorted(there, key=lambda stored: stored.revision, reverse=True):
        if kept >= most or left[stored.key.namespace] >= most_of_namespace:
            too_many.append(stored)
        else:
            kept += 1
            left[stored.key.namespace] += 1
    return too_many


def last_heard(event: Body) -> datetime:
    """Return when an Event was last written about, by whichever field says so."""
    series = event.get("series") or {}
    said: list[Any] = [
        event["metadata"]["creationTimestamp"],
        event.get("firstTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    ]
    return max(parse_time(text) for text in said if text)
