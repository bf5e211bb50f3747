"""What happens, as it happens: one feed of events for everyone who listens.

informers ─► Feed ─┬─► history (bounded)      resume after a broken connection
                   └─► Subscription (bounded) ─► SSE, WebSocket

Events are made of the shared informers, once, however many listen. A listener that does not keep up
is cut off rather than waited for, and told to come back with the last id it saw; as long as the
history reaches back that far, nothing is lost. An id is `<run>-<number>`: after a restart, or too
late, the answer to a resume is `reset` and the state of the world anew, as for a first connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from msgspec import Struct

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, new_uid, rfc3339
from boilerhouse.edge.api.informers import Informers
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic, Object, Pod
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.reading.holdings import phase_of
from boilerhouse.tenancy.pools.objects import Pool

HISTORY = 10_000
QUEUE = 1_024
HEARTBEAT = 15.0  # seconds of silence after which a sign of life is sent
_RELEASED = 4_096  # claims of which it was told that they were released

Body = dict[str, Any]
T = TypeVar("T", bound=Object)

_KINDS = {
    ClaimPhase.PENDING: "tenant.pending",
    ClaimPhase.ACTIVE: "tenant.claimed",
    ClaimPhase.RELEASING: "tenant.releasing",
    ClaimPhase.RELEASED: "tenant.released",
    ClaimPhase.RELEASE_FAILED: "tenant.release_failed",
    ClaimPhase.ERROR: "tenant.error",
}


class Event(Struct, frozen=True):
    """One thing that happened. `body` has the type and what belongs to it."""

    id: str
    type: str
    body: Body


class Overrun(Exception):
    """The listener was too slow: some events are lost to it unless it resumes."""


class Subscription:
    """One listener's place. Iterate over it; None is a heartbeat."""

    def __init__(self, feed: Feed, first: list[Event]) -> None:
        self._feed = feed
        self._first = deque(first)
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE + 1)
        self._overrun = False
        self._ended = False

    def put(self, event: Event) -> None:
        if self._queue.qsize() >= QUEUE:
            self._overrun = True
            self.end()
        else:
            self._queue.put_nowait(event)

    def end(self) -> None:
        """Let the listener come to its end after what it has already been given."""
        if not self._ended:
            self._ended = True
            self._feed.leave(self)
            self._queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Event | None]:
        try:
            while self._first:
                yield self._first.popleft()
            while True:
                try:
                    async with asyncio.timeout(self._feed.heartbeat):
                        event = await self._queue.get()
                except TimeoutError:
                    yield None
                    continue
                if event is None:
                    if self._overrun:
                        raise Overrun
                    return
                yield event
        finally:
            self._feed.leave(self)


class Feed:
    """Events out of changes. Make it before the informers run, and it misses nothing."""

    def __init__(self, informers: Informers, clock: Clock, *, heartbeat: float = HEARTBEAT) -> None:
        self.heartbeat = heartbeat
        self._informers = informers
        self._clock = clock
        self._run = new_uid()[:8]
        self._number = 0
        self._history: deque[Event] = deque(maxlen=HISTORY)
        self._listeners: set[Subscription] = set()
        self._released: OrderedDict[str, None] = OrderedDict()
        self._stops: list[Callable[[], None]] = [
            informers.pods.subscribe(self._pod),
            informers.claims.subscribe(self._claim),
            informers.workloads.subscribe(self._of(_workload)),
            informers.pools.subscribe(self._of(_pool)),
            informers.triggers.subscribe(self._of(_trigger)),
        ]

    def close(self) -> None:
        """Hear nothing more, and let every listener end."""
        for stop in self._stops:
            stop()
        self._stops = []
        for listener in list(self._listeners):
            listener.end()

    def subscribe(self, last: str = "") -> Subscription:
        """Listen from now on, or from after the event of the id `last` if it is still known."""
        missed = self._after(last)
        if missed is None:
            greeting = {"type": "reset" if last else "hello"}
            first = [self._newest(greeting), *self._world()]
        else:
            first = [self._newest({"type": "hello", "resumed": last}), *missed]
        subscription = Subscription(self, first)
        self._listeners.add(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        self._listeners.discard(subscription)

    def _after(self, last: str) -> list[Event] | None:
        run, _, number = last.partition("-")
        if run != self._run or not number.isdecimal() or int(number) > self._number:
            return None
        oldest = self._number - len(self._history)
        if int(number) < oldest:
            return None
        return list(self._history)[int(number) - oldest :]

    def _world(self) -> list[Event]:
        """Tell how everything stands now, as if each thing had just come to be so."""
        informers = self._informers
        bodies = [
            *map(_workload, _all(informers.workloads)),
            *map(_pool, _all(informers.pools)),
            *(_instance(one, one.status.phase) for one in _all(informers.pods)),
            *map(_of_phase, _all(informers.claims)),
            *map(_trigger, _all(informers.triggers)),
        ]
        return [self._newest(body) for body in bodies]

    def _newest(self, body: Body) -> Event:
        """Make an event that stands at the newest id: resuming from it goes on from here."""
        last = f"{self._run}-{self._number}"
        body["id"], body["at"] = last, rfc3339(self._clock.now())
        return Event(last, body["type"], body)

    def _tell(self, body: Body) -> None:
        self._number += 1
        event = self._newest(body)
        self._history.append(event)
        if self._listeners:
            for listener in list(self._listeners):
                listener.put(event)

    def _pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self._tell(_instance(old, "Deleted"))
            return
        before = None if old is None else _instance(old, old.status.phase)
        after = _instance(new, new.status.phase)
        if before != after:
            self._tell(after)
        labels = new.metadata.labels
        ready = labels.get(names.POOL_STATUS) == names.READY
        if ready and (old is None or old.metadata.labels.get(names.POOL_STATUS) != names.READY):
            body = {"type": "pool.instance.ready", "name": new.metadata.name}
            self._tell(body | {"workloadRef": labels.get(names.WORKLOAD)})

    def _claim(self, change: Change[Claim]) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self._release(old)
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._release(old)
            old = None
        phase = phase_of(new)
        if old is not None and phase_of(old) == phase:
            return
        if phase == ClaimPhase.RELEASED:
            self._release(new)
        else:
            self._tell(_of_phase(new))

    def _release(self, claim: Claim) -> None:
        """Tell once that a claim was released: it becomes Released and then goes, too."""
        uid = claim.metadata.uid
        if uid in self._released:
            return
        self._released[uid] = None
        if len(self._released) > _RELEASED:
            self._released.popitem(last=False)
        self._tell(_of_claim(_KINDS[ClaimPhase.RELEASED], claim))

    def _of(self, shown: Callable[[T], Body]) -> Callable[[Change[T]], None]:
        """Tell of a kind whenever what is shown of an object changes."""

        def tell(change: Change[T]) -> None:
            now = change.new or change.old
            assert now is not None
            before = None if change.old is None else shown(change.old)
            after = shown(now) | ({} if change.new is not None else {"phase": "Deleted"})
            if before != after:
                self._tell(after)

        return tell


def _all(informer: Informer[T]) -> list[T]:
    return [informer.cache[key] for key in sorted(informer.cache)]


def _workload(one: Dynamic) -> Body:
    return _state("workload.state", one)


def _trigger(one: Dynamic) -> Body:
    return _state("trigger.state", one)


def _state(kind: str, one: Dynamic) -> Body:
    detail = one.status.get("detail", "")
    body = {"type": kind, "name": one.metadata.name, "phase": one.status.get("phase")}
    return body | ({"detail": detail} if detail else {})


def _instance(pod: Pod, phase: str) -> Body:
    meta = pod.metadata
    body: Body = {
        "type": "instance.state",
        "name": meta.name,
        "phase": phase or "Pending",
        "ready": pod.ready and phase != "Deleted",
        "workloadRef": meta.labels.get(names.WORKLOAD),
    }
    tenant = meta.annotations.get(names.TENANT_ID) or meta.labels.get(names.TENANT)
    if tenant:
        body["tenantId"] = tenant
    if meta.deletion_timestamp is not None:
        body["terminating"] = True
    return body


def _of_claim(kind: str, claim: Claim) -> Body:
    body: Body = {
        "type": kind,
        "name": claim.metadata.name,
        "tenantId": claim.spec.tenant_id,
        "workloadRef": claim.spec.workload_ref,
    }
    if claim.status is not None and claim.status.detail:
        body["detail"] = claim.status.detail
    return body


def _of_phase(claim: Claim) -> Body:
    """Tell of a claim by the phase it is in."""
    phase, status = phase_of(claim), claim.status
    body = _of_claim(_KINDS[phase], claim)
    if status is None or phase != ClaimPhase.ACTIVE:
        return body
    body["source"], body["instanceId"] = status.source, status.instance_id
    return body


def _pool(pool: Pool) -> Body:
    status = pool.status
    return {
        "type": "pool.state",
        "name": pool.metadata.name,
        "workloadRef": pool.spec.workload_ref,
        "phase": "Degraded" if status is None else status.phase,
        "ready": 0 if status is None else status.ready,
        "warming": 0 if status is None else status.warming,
    }
