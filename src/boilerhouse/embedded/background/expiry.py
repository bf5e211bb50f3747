"""Events go after an hour: they say what happened, and would otherwise pile up for ever.

every minute ──► Events not repeated for an hour ──► removed
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from boilerhouse.core.clock import Clock, parse_time
from boilerhouse.embedded.background.faults import Faults
from boilerhouse.embedded.kind import Body
from boilerhouse.embedded.registry import Registry
from boilerhouse.embedded.storage.store import Store
from boilerhouse.embedded.verbs.deletion import DeleteOptions
from boilerhouse.embedded.verbs.removal import Removal

LIFETIME = timedelta(hours=1)
EVERY_SECONDS = 60.0
# So that a burst of an hour ago does not hold everybody up when it goes.
AT_ONCE = 1000


class Expiry:
    def __init__(self, store: Store, registry: Registry, clock: Clock, removal: Removal) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._removal = removal
        self.faults = Faults("expiry")

    async def run(self) -> None:
        """Remove what is past, for ever."""
        while True:
            try:
                await self.sweep()
            except Exception as error:  # noqa: BLE001  told by Faults; the next sweep may work
                self.faults.failed("sweep", error)
            else:
                self.faults.worked("sweep")
            await asyncio.sleep(EVERY_SECONDS)

    async def sweep(self) -> None:
        """Remove the Events that were last heard of too long ago."""
        kind = self._registry.of_resource("events")
        if kind is None:
            return
        limit = self._clock.now() - LIFETIME
        old = [
            stored
            for stored in self._store.scan_head("events")
            if "deletionTimestamp" not in stored.body["metadata"]
            and last_heard(stored.body) < limit
        ]
        for start in range(0, len(old), AT_ONCE):
            heads = [self._store.head(stored.key) for stored in old[start : start + AT_ONCE]]
            await asyncio.gather(
                *[self._removal.delete(kind, head, DeleteOptions()) for head in heads if head]
            )


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
