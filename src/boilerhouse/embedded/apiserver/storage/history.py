"""The last changes in memory, and the subscriptions that read them.

commit ──► History.publish ──► one log per (resource, namespace) ──► Subscription (a position in it)

A subscription owns no queue: it is a position in a log that all its peers share, so an event costs
one append however many watch, plus one wake-up for each that sleeps. A watcher of a quiet resource
never looks at a busy one, and one of a single object sleeps through the others. Who falls behind so
far that the history has moved on gets `Overrun`.

The history is bounded by count and by bytes. What counts is what nothing else would keep: versions
that were replaced or deleted. Objects that live cost what they cost.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import MutableSequence, Sequence
from typing import Any, NamedTuple

from boilerhouse.embedded.apiserver.storage.change import Change

# What is kept by default: the last changes, as many and as much of them as this.
MAX_CHANGES = 10_000
MAX_BYTES = 64 << 20
# Behind this many changes a watcher is slow; it then pays for decoding old versions again.
FRESH = 512
FRESH_BYTES = 4 << 20
# So that one watcher that catches up does not hold the loop for long, nor much memory.
MAX_BATCH = 500
MAX_BATCH_BYTES = 256 << 10
# A position that no log holds.
BEFORE_ANYTHING = -1


class Expired(Exception):
    """A watch was asked for from a revision older than the history: list again."""


class Overrun(Exception):
    """A subscriber was so slow that changes it had not seen left the history: list again."""


class Past(NamedTuple):
    """A version that nothing refers to any more, and what its JSON takes."""

    revision: int
    size: int


class History:
    """The last changes; the newest of them is kept however large it is."""

    def __init__(self, limit: int, oldest: int, max_bytes: int = MAX_BYTES) -> None:
        if limit < 1:
            raise ValueError("a history holds at least one change")
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._ring: deque[Change] = deque()
        # The newest part of the ring again: what has not been told to forget.
        self._fresh: deque[Change] = deque()
        self._fresh_bytes = 0
        # By resource, and by resource and namespace.
        self._logs: defaultdict[tuple[str, str], _Log] = defaultdict(_Log)
        self.oldest = oldest
        self.revision = oldest

    def publish(self, changes: Sequence[Change]) -> list[Past]:
        """Append committed changes in order, wake who waits for them, and say what is past."""
        logs = self._logs
        for change in changes:
            self._bytes += change.past_bytes
            self._fresh_bytes += change.weight
            self.revision = change.revision
            resource, namespace, _ = change.key
            logs[resource, ""].append(change)
            if namespace:
                logs[resource, namespace].append(change)
        self._ring.extend(changes)
        self._fresh.extend(changes)
        self._forget_stale()
        past: list[Past] = []
        while len(self._ring) > self._limit or (
            self._bytes > self._max_bytes and len(self._ring) > 1
        ):
            past += self._evict()
        return past

    def changes(self, resource: str, since: int, namespace: str = "") -> list[Change]:
        """Return what was changed after `since`, oldest first. Raises `Expired`."""
        self._check_retained(since)
        log = self._logs.get((resource, namespace))
        if log is None:
            return []
        return [log.changes[position] for position in range(log.after(since), log.end)]

    def watch(self, resource: str, since: int, namespace: str = "", name: str = "") -> Subscription:
        self._check_retained(since)
        log = self._logs[resource, namespace]  # if it is a new one, nothing is retained of it
        subscription = Subscription(self, log, since, name)
        log.subscriptions.add(subscription)
        return subscription

    def _check_retained(self, since: int) -> None:
        if since < self.oldest:
            raise Expired(f"too old resource version: {since} ({self.oldest})")

    def close(self) -> None:
        """End every subscription."""
        for log in self._logs.values():
            for subscription in tuple(log.subscriptions):
                subscription.close()

    def break_off(self) -> None:
        """Have every reader begin anew, as one that fell behind."""
        for log in self._logs.values():
            for subscription in tuple(log.subscriptions):
                subscription.break_off()

    def _forget_stale(self) -> None:
        fresh = self._fresh
        while len(fresh) > FRESH or (self._fresh_bytes > FRESH_BYTES and len(fresh) > 1):
            stale = fresh.popleft()
            self._fresh_bytes -= stale.weight
            stale.forget()

    def _evict(self) -> list[Past]:
        change = self._ring.popleft()
        self._bytes -= change.past_bytes
        if self._fresh[0] is change:  # there are fewer than are fresh
            self._fresh.popleft()
            self._fresh_bytes -= change.weight
        self.oldest = change.revision
        resource, namespace, _ = change.key
        for name in ("", namespace) if namespace else ("",):
            log = self._logs[resource, name]
            log.drop()
            if not log.changes and not log.subscriptions:
                del self._logs[resource, name]
        return [Past(version.revision, len(version.raw)) for version in change.past]


class _Log:
    """The retained changes of one resource (in one namespace), numbered from the first ever."""

    __slots__ = ("changes", "end", "holding", "sleeping", "start", "subscriptions")

    def __init__(self) -> None:
        self.changes: dict[int, Change] = {}
        self.start = 0
        self.end = 0
        self.subscriptions: set[Subscription] = set()
        self.sleeping: set[Subscription] = set()  # those of them that wait for news
        self.holding: set[Subscription] = set()

    def append(self, change: Change) -> None:
        self.changes[self.end] = change
        self.end += 1
        if self.sleeping:
            self.sleeping = {one for one in self.sleeping if one.sleeps_through(change)}

    def drop(self) -> None:
        del self.changes[self.start]
        self.start += 1
        for subscription in tuple(self.holding):
            subscription.let_go_if_overrun()

    def after(self, revision: int) -> int:
        """Return the position of the first change newer than `revision`."""
        positions = range(self.start, self.end)
        return self.start + bisect_right(
            positions, revision, key=lambda position: self.changes[position].revision
        )


class Subscription:
    """The changes of one resource after a revision: first the retained ones, then live.

    For one reader: `async for change in subscription`, or `await subscription.batch()` for all that
    is there at once. Ends when it or the store is closed; raises `Overrun` when too far behind.

    With a `name`, changes of other objects wake nobody; they are seen only beside those that do.
    """

    def __init__(self, history: History, log: _Log, since: int, name: str = "") -> None:
        self._history = history
        self._log = log
        self._name = name
        self._position = log.after(since)
        self._since = self._seen = since
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._nudged = False
        self._held: MutableSequence[Any] = []
        self.closed = False

    @property
    def revision(self) -> int:
        """Up to where this reader has seen everything: what a bookmark may say."""
        if self._position == self._log.end:
            return max(self._seen, self._history.revision)
        return self._seen

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Change:
        changes = await self.batch(1)
        if not changes:
            raise StopAsyncIteration
        return changes[0]

    async def batch(self, limit: int = MAX_BATCH) -> list[Change]:
        """Wait for news and return it, as `take` does."""
        while True:
            while self.idle:
                await self.news()
            told = self._nudged or self.closed
            found = self.take(limit)
            if found or told:
                return found

    @property
    def idle(self) -> bool:
        """Whether there is nothing to take, and `news` to be waited for."""
        return self._position >= self._log.end and not (self._nudged or self.closed)

    def news(self) -> asyncio.Future[None]:
        """Return what is done when there may be something to take. For one who waits."""
        self._log.sleeping.add(self)
        self._waiting = waiting = self._loop.create_future()
        return waiting

    def take(self, limit: int = MAX_BATCH) -> list[Change]:
        """Return what is there, at most `limit` changes and about MAX_BATCH_BYTES of them.

        An empty list is the end (`closed`), or the answer to a `nudge`, or all that came was older
        than what this watch is to begin with.
        """
        self._nudged = False
        log, start = self._log, self._position
        if start >= log.end or self.closed:
            return []
        if start + 1 == log.end and start >= log.start:
            found = [log.changes[start]]  # the usual case, for each of a thousand watchers
        else:
            self.check()
            found = self._next(limit)
        self._position = start + len(found)
        if found[0].revision <= self._since:  # met only by a watch from the future
            found = [change for change in found if change.revision > self._since]
        if found:
            self._seen = found[-1].revision
        return found

    def _next(self, limit: int) -> list[Change]:
        log, start = self._log, self._position
        found: list[Change] = []
        size = 0
        for position in range(start, min(log.end, start + limit)):
            change = log.changes[position]
            size += change.size
            if found and size > MAX_BATCH_BYTES:
                break
            found.append(change)
        return found

    def check(self) -> None:
        """Raise `Overrun`, and end, if changes this reader has not seen have left the history."""
        if self._position < self._log.start:
            self.close()
            raise Overrun("the watch fell behind the retained history")

    def hold(self, objects: MutableSequence[Any]) -> None:
        """Keep what the reader still has to show before the changes; emptied once it is overrun.

        A reader that does not read may stand still for ever. Old versions must not stand with it.
        """
        self._held = objects
        self._log.holding.add(self)

    def break_off(self) -> None:
        """Let the reader's next step raise `Overrun`."""
        self._position = BEFORE_ANYTHING
        self._log.sleeping.discard(self)
        self._let_go()
        self.wake()

    def let_go_if_overrun(self) -> None:
        if self._position < self._log.start:
            self._let_go()

    def _let_go(self) -> None:
        self._held.clear()
        self._log.holding.discard(self)

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        return self._position < self._log.end and not self.closed

    def nudge(self) -> None:
        """Let the reader go on without news: cheaper than a deadline for every wait."""
        self._nudged = True
        self.wake()

    def close(self) -> None:
        self.closed = True
        self._log.subscriptions.discard(self)
        self._log.sleeping.discard(self)
        self._let_go()
        self.wake()

    def sleeps_through(self, change: Change) -> bool:
        """Pass over the next change, if it is of another object; wake up for any other."""
        if self._name and self._name != change.key.name:
            self._position += 1  # who sleeps has seen all before it
            return True
        self.wake()
        return False

    def wake(self) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
