"""Watches: what was, what changes, and how a client knows that it has missed nothing.

history ──► Subscription ──► select (arrivals and departures) ──► lines ──► Stream

A watch of a plain kind costs one prepared line per event, however many watch (`Change.event_line`).
With a selector an object can come into view (ADDED) or leave it (DELETED) by a mere change.
Lines leave in pieces that are bounded, with a pause for others in between, and the next piece is
made when the last one is gone: a client that does not read costs a piece and a position.
Bookmarks tell a quiet client how far it has seen, each minute and just before the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from boilerhouse.core.clock import Clock, new_rng
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.refusals import invalid_options, too_new
from boilerhouse.embedded.apiserver.request.rendering import encode, shaped
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.storage.change import EventType
from boilerhouse.embedded.apiserver.storage.store import (
    Change,
    Expired,
    Overrun,
    Store,
    Stored,
    Subscription,
)
from boilerhouse.embedded.apiserver.verbs.objects import parse_version
from boilerhouse.embedded.apiserver.verbs.presenting import Presenter
from boilerhouse.embedded.apiserver.verbs.selection import Selection, number, select, truth
from boilerhouse.platform.kube.status import (
    ApiError,
    Cause,
    Gone,
    NotAcceptable,
    forbidden_field,
    unsupported_value,
)
from boilerhouse.platform.kube.wire import JSON, Request, Stream

BOOKMARK_SECONDS = 60.0
# How long before the end the last bookmark goes out.
LAST_BOOKMARK_SECONDS = 2.0
# Without timeoutSeconds a watch ends by itself after between one and two of these.
DEFAULT_SECONDS = 1800
# Lines leave in pieces of about this size; a longer line leaves by itself, and is not copied.
PIECE_BYTES = 64 * 1024

_random = new_rng()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a watch request asks for."""

    kind: Kind
    namespace: str
    selection: Selection
    rendering: Rendering
    include: str
    since: int
    initial: bool
    bookmarks: bool
    seconds: float
    # Asked for every change.
    everything: bool
    plain: bool


class Watches:
    def __init__(self, store: Store, clock: Clock, presenter: Presenter) -> None:
        self._store = store
        self._clock = clock
        self._presenter = presenter

    def answer(self, target: Target, request: Request, rendering: Rendering) -> Stream:
        """Begin a watch. What is wrong with the request is refused; what is too old or too new is
        an ERROR event, as clients of a watch look for it there."""
        if rendering.media != JSON:
            raise NotAcceptable(f"only the following media types are accepted: {JSON};stream=watch")
        wanted = _read(target, request, rendering)
        resource, namespace = wanted.kind.resource, wanted.namespace
        # The watch is about this moment on, whenever its first line is asked for. Nothing is held
        # until then: a stream that nobody reads costs nothing, the history bridges the gap.
        current = self._store.revision
        first = self._store.scan(resource, namespace) if wanted.initial else []
        first = self._presenter.all_shown(wanted.kind, first)
        return Stream(200, self._run(wanted, current, deque(first)))

    async def _run(
        self, wanted: _Wanted, current: int, first: deque[Stored]
    ) -> AsyncIterator[bytes]:
        if wanted.initial and wanted.since > current:
            yield _error(too_new(wanted.since, current))
            return
        since = current if wanted.initial else wanted.since
        try:
            subscription = self._store.watch(
                wanted.kind.resource, since, wanted.namespace, wanted.selection.name
            )
        except Expired as error:
            yield _error(Gone(str(error)))
            return
        bell = _Bell(wanted, subscription)
        try:
            if wanted.initial:
                subscription.hold(first)
                async for piece in self._initial(wanted, first):
                    yield piece
                subscription.check()
                if wanted.bookmarks:
                    yield _bookmark(wanted, str(current), end=True)
            # Not in a generator of its own: each piece would have to climb through that one, too.
            bell.begin()
            while True:
                # Others have their turn also while there is more to be read at once.
                await (subscription.news() if subscription.idle else asyncio.sleep(0))
                changes = subscription.take()
                if subscription.closed:
                    return  # the store is closing
                for piece in self._written_out(wanted, changes):
                    yield piece
                if bell.rang:
                    if bell.over:
                        return
                    yield _bookmark(wanted, str(subscription.revision))
                    bell.set()
        except Overrun:
            yield _error(Gone("too old resource version: the watch fell behind"))
        finally:
            bell.stop()
            subscription.close()

    async def _initial(self, wanted: _Wanted, first: deque[Stored]) -> AsyncIterator[bytes]:
        """Write the objects there are as ADDED, in pieces, letting others run in between.

        `first` is emptied from outside when the watch has fallen behind.
        """
        now = self._clock.now()

        def lines() -> Iterator[bytes]:
            while first:
                stored = first.popleft()
                if wanted.everything or wanted.selection.matches(stored.body):
                    yield from _written(wanted, "ADDED", stored, now)

        for piece in _pieces(lines()):
            yield piece
            await asyncio.sleep(0)

    def _written_out(self, wanted: _Wanted, changes: list[Change]) -> Iterable[bytes]:
        if len(changes) == 1:  # as nearly always: nothing to join
            return self._line(wanted, changes[0])
        return _pieces(part for change in changes for part in self._line(wanted, change))

    def _line(self, wanted: _Wanted, change: Change) -> Iterable[bytes]:
        """Return the line of a change in parts; none if it is not in view."""
        kind = change.type if wanted.everything else _seen_as(wanted.selection, change)
        if kind is None:
            return ()
        plain = wanted.plain and change.revision >= wanted.kind.since
        if plain and change.size <= PIECE_BYTES:
            return (change.event_line(kind),)
        shown = change.object_as(kind)
        if not plain:
            shown = self._presenter.shown(wanted.kind, shown)
        return _written(wanted, kind, shown, self._clock.now())


def _seen_as(selection: Selection, change: Change) -> EventType | None:
    """Return what a change is to who sees this selection; None when it is not in view."""
    before = change.previous is not None and selection.matches(change.previous.body)
    after = change.type != "DELETED" and selection.matches(change.object.body)
    if not before and not after:
        return None
    return "MODIFIED" if before and after else "ADDED" if after else "DELETED"


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join what is short; what is long goes as it is, so that many watchers can share it."""
    short: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > PIECE_BYTES and short:
            yield b"".join(short)
            short, size = [], 0
        if len(line) > PIECE_BYTES:
            yield line
        else:
            short.append(line)
            size += len(line)
    if short:
        yield b"".join(short)


def _read(target: Target, request: Request, rendering: Rendering) -> _Wanted:
    version = request.param("resourceVersion")
    send = truth(request, "sendInitialEvents")
    _check_options(request, send)
    since = parse_version(version) if version else 0
    bookmarks = bool(truth(request, "allowWatchBookmarks"))
    initial = send if send is not None else since == 0
    seconds = number(request, "timeoutSeconds")
    selection = select(target, request)
    return _Wanted(
        kind=target.kind,
        namespace=target.namespace,
        selection=selection,
        rendering=rendering,
        include=request.param("includeObject"),
        since=since,
        initial=initial,
        bookmarks=bookmarks,
        seconds=float(seconds) if seconds > 0 else DEFAULT_SECONDS * (1 + _random.random()),
        everything=selection.everything,
        plain=rendering.plain,
    )


def _check_options(request: Request, send: bool | None) -> None:
    causes: list[Cause] = []
    match = request.param("resourceVersionMatch")
    name = "resourceVersionMatch"
    if send is None and match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_field(name, why))
    elif send is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(forbidden_field(name, why))
        if match:
            causes.append(unsupported_value(name, match, ("NotOlderThan",)))
    if request.param("continue"):
        causes.append(forbidden_field(name, f"{name} is forbidden when continue is provided"))
    if causes:
        raise invalid_options("ListOptions", causes)


class _Bell:
    """Wakes a watch when a bookmark is due, and when its time is up (`over`)."""

    def __init__(self, wanted: _Wanted, subscription: Subscription) -> None:
        self._wanted = wanted
        self._subscription = subscription
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._end = 0.0
        self.rang = False

    @property
    def over(self) -> bool:
        return self.rang and self._due >= self._end

    def begin(self) -> None:
        """Let the time of the watch begin."""
        self._end = self._loop.time() + self._wanted.seconds
        self.set()

    def set(self) -> None:
        """Ring when the next thing is due."""
        bookmarks, end = self._wanted.bookmarks, self._end
        self._due = _next_bookmark(self._loop.time(), end) if bookmarks else end
        self.rang = False
        self._timer = self._loop.call_at(self._due, self._ring)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self.rang = True
        self._subscription.nudge()


def _next_bookmark(now: float, end: float) -> float:
    """Return when to write the next one: in a minute, or shortly before the end, or no more."""
    last = end - LAST_BOOKMARK_SECONDS
    # A timer may ring a little early; that is not another turn.
    return min(now + BOOKMARK_SECONDS, last) if now + 0.1 < last else end


def _written(wanted: _Wanted, event: str, stored: Stored, now: datetime) -> Iterator[bytes]:
    """Yield a line in parts: the bytes of a large object leave as they are."""
    if wanted.plain:
        yield b'{"type":"%b","object":' % event.encode()
        yield stored.raw
        yield b"}\n"
        return
    value = shaped(wanted.kind, stored.body, wanted.rendering, now, wanted.include)
    yield encode({"type": event, "object": value}) + b"\n"


def _bookmark(wanted: _Wanted, revision: str, *, end: bool = False) -> bytes:
    metadata: Body = {"resourceVersion": revision}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    kind, version = wanted.kind.kind, wanted.kind.api_version
    if wanted.rendering.shape:
        version = f"meta.k8s.io/{wanted.rendering.version}"
        kind = "Table" if wanted.rendering.shape == "Table" else "PartialObjectMetadata"
    value: Body = {"kind": kind, "apiVersion": version, "metadata": metadata}
    if kind == "Table":
        value |= {"columnDefinitions": [], "rows": []}
    return encode({"type": "BOOKMARK", "object": value}) + b"\n"


def _error(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.to_status()}) + b"\n"
