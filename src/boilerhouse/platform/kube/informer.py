"""A live copy of one resource: list, then watch, for ever.

client.list ──► Cache ◄── client.watch
                  │
                  └──► handlers (keys into a queue), indexes, reads

A watch is a connection on which the server may have nothing to say for hours. That is what makes it
hard: silence is the normal case, and a dead connection is silent too. A peer whose machine lost
power, a load balancer that forgot us, a stopped process whose kernel still acknowledges what we
send: none of them ever sends a FIN, and a client that waits without a deadline waits for ever,
serving what was true the day the wire broke. Four rules keep this one honest:

1. **The server is told to hang up** (`timeoutSeconds`, a minute or so, jittered so that not all
   watchers return at once). A quiet but healthy watch thus ends cleanly, again and again, and is
   resumed from the last revision: one cheap request a minute.
2. **We wait a little longer than that, and no more.** With rule 1, silence beyond `timeoutSeconds`
   plus a margin is proof that nobody is there. The deadline covers the time to the first byte too.
3. **Any doubt is settled by a new list.** An expired revision (410), an ERROR event, a line that
   does not parse, a connection that breaks: instead of asking what might have been missed, ask what
   is. Bookmarks keep the revision fresh, so that a quiet watch does not expire.
4. **Never give up.** Every failure is followed by another attempt, after a back-off with jitter and
   a cap. Forbidden today may be allowed tomorrow; a restarted API server comes back.

And since even this could be wrong, `last_heard` says when the server last proved that it is there
(an event, a bookmark, a list, a clean end of a watch), and `/healthz` fails when that is too long
ago: better restarted than blind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from boilerhouse.core.backoff import backoff
from boilerhouse.core.clock import Random, new_rng
from boilerhouse.core.supervision import supervised
from boilerhouse.platform.kube import selectors
from boilerhouse.platform.kube.cache import Cache, Change, Index
from boilerhouse.platform.kube.client import ALL, Client
from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.kube.selectors import Labels
from boilerhouse.platform.kube.status import ApiError, Unavailable
from boilerhouse.platform.kube.watch import WatchEvent

T = TypeVar("T", bound=Object)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient an informer is, in seconds."""

    watch: int = 60  # asked of the server, up to a quarter more
    margin: float = 15.0  # how much longer than that silence is borne
    first_delay: float = 0.2
    longest_delay: float = 30.0
    too_short: float = 1.0  # a watch that ends sooner and says nothing is a failure


class Informer(Generic[T]):
    """Keeps `cache` true. Start it with `async with informer.running():`."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: str = "",
        timing: Timing | None = None,
        rng: Random | None = None,
    ) -> None:
        self.resource = resource
        self.cache: Cache[T] = Cache()
        self.synced = asyncio.Event()  # set once the first list is in
        self.last_heard: float | None = None  # in the event loop's time
        self.last_error = ""  # empty while all is well
        self.relists = 0
        self.misfits: dict[Key, str] = {}  # objects that do not fit their Struct, and why
        self._client = client
        self._namespace = client.resolve_namespace(namespace)
        self._labels: Labels = labels or {}
        self._fields = fields
        self._timing = timing or Timing()
        self._rng = rng or new_rng()
        self._failures = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Informer[T]]:
        """Run in the background while the context lasts."""
        name = f"informer {self.resource}"
        task = asyncio.create_task(supervised(name, self.run), name=name)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch()
            except ApiError as error:
                await self._pause(error, error.retry_after)
            except Exception as error:  # given up on, the operator would go on blind
                log.exception("informer.failed", resource=str(self.resource))
                await self._pause(error, 0)

    async def wait_synced(self, timeout: float = 30.0) -> None:
        """Wait for the first list; `Unavailable` with the last error if it does not come."""
        try:
            async with asyncio.timeout(timeout):
                await self.synced.wait()
        except TimeoutError as error:
            why = self.last_error or "no answer"
            raise Unavailable(
                f"informer of {self.resource}: nothing after {timeout:g} s: {why}"
            ) from error

    def silence(self) -> float:
        """Return the seconds since the server last proved that it is there."""
        if self.last_heard is None:
            return float("inf")
        return asyncio.get_running_loop().time() - self.last_heard

    def healthy(self, limit: float | None = None) -> bool:
        """Tell whether the cache is recent; by default two watches may be lost before it is not."""
        patience = 2 * (1.25 * self._timing.watch + self._timing.margin)
        return self.silence() <= (patience if limit is None else limit)

    def complaint(self) -> str:
        """Say why the cache cannot be trusted now; nothing while it can."""
        if not self.synced.is_set():
            told = f"{self.resource}: not listed yet"
        elif not self.healthy():
            told = f"{self.resource}: heard nothing for {self.silence():.0f} s"
        else:
            return ""
        return f"{told}: {self.last_error}" if self.last_error else told

    def get(self, namespace: str, name: str) -> T | None:
        return self.cache.get(Key(namespace, name))

    def index(self, values: Callable[[T], Iterable[Hashable]]) -> Index[T]:
        """Keep an index of the cache; see `Cache.index`."""
        return self.cache.index(values)

    def subscribe(self, handler: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Be told of every change; see `Cache.subscribe`."""
        return self.cache.subscribe(handler)

    def observe(self, item: T) -> None:
        """Merge the answer to an own write, so that the next read sees it.

        Subscribers hear of it in a later turn of the event loop: a write does not wait for them.
        With a field selector it is left to the watch: whether it is selected only the server knows.
        """
        if self._fields or self._namespace not in (ALL, item.metadata.namespace):
            return
        selected = not self._labels or selectors.matches(self._labels, item.metadata.labels)
        self.cache.observe(item, selected=selected)
        self._tell_soon()

    def forget(self, item: Object) -> None:
        """Merge an own deletion that `client.delete` reported as done (it returned None)."""
        self.cache.forget(item)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self.cache.untold:
            asyncio.get_running_loop().call_soon(self.cache.tell)

    async def _list(self) -> None:
        mark = self.cache.mark()
        listing = await self._client.list(
            self.resource, namespace=self._namespace, labels=self._labels, fields=self._fields
        )
        if not self.cache.replace(mark, listing.items, int(listing.resource_version)):
            log.warning("informer.history_restarted", resource=str(self.resource))
        for key, why in listing.misfits.items():
            self._misfit(key, why)
        self.misfits = dict(listing.misfits)
        self.relists += 1
        self._heard()
        self.synced.set()

    async def _watch(self) -> None:
        """Follow changes until the server ends the watch as it was told; anything else raises."""
        now = asyncio.get_running_loop().time
        began = now()
        seconds = int(self._timing.watch * self._rng.uniform(1.0, 1.25))
        said_something = False
        async with self._client.watch(
            self.resource,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=str(self.cache.revision),
            timeout_seconds=seconds,
            read_timeout=seconds + self._timing.margin,
            known=self.cache,
        ) as events:
            async for event in events:
                self._take(event)
                self.last_heard = now()
                said_something = True
                if self._failures and now() - began >= self._timing.too_short:
                    self._failures = 0
        if not said_something and now() - began < self._timing.too_short:
            raise Unavailable("the server ended the watch at once")
        self._failures = 0
        self._heard()

    def _take(self, event: WatchEvent[T]) -> None:
        if self.misfits:
            self.misfits.pop(event.key, None)
        if event.object is not None:
            self.cache.apply(event.object, deleted=event.type == "DELETED")
        elif event.known or event.type == "BOOKMARK":
            self.cache.bookmark(int(event.resource_version))
        else:
            self.cache.drop(event.key, int(event.resource_version))
            if event.type != "DELETED":
                self._misfit(event.key, event.misfit)

    def _misfit(self, key: Key, why: str) -> None:
        self.misfits[key] = why
        log.error("informer.misfit", resource=str(self.resource), key=str(key), why=why)

    def _heard(self) -> None:
        self.last_heard = asyncio.get_running_loop().time()
        self.last_error = ""

    async def _pause(self, error: Exception, asked: float) -> None:
        timing = self._timing
        delay = backoff(self._failures, timing.first_delay, timing.longest_delay, self._rng)
        delay = max(delay, min(asked, timing.longest_delay))
        self._failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        log.warning(
            "informer.relist",
            resource=str(self.resource),
            why=self.last_error,
            again_in=round(delay, 2),
        )
        await asyncio.sleep(delay)
