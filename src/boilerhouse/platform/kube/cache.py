"""What an informer knows: objects by key, merged from lists, watch events and our own writes.

list ─────────┐
watch event ──┼──► Cache ──► indexes, reads; handlers
own write ────┘                              (of own writes not before `tell`)

Three sources tell of the same objects at different speeds, and none of them may take the cache back
in time. One order decides: the resourceVersion, which Kubernetes documents as an integer that may
be compared among objects of one resource (since 1.35; it was one in every version before).

* The watch tells of every change in that order. So when it has told us of revision 105
  (`revision`), everything up to 105 is reflected, and whatever else arrives with a smaller number
  (the slow answer to a write of ours, say) is old news and dropped. This is why an object whose
  deletion we have seen cannot be brought back by a late answer: no tombstone is needed for that.
* An own write newer than that is put in at once (`observe`), so that the next decision sees it. The
  watch then repeats history up to it: those events are older than what we hold, and skipped.
* An own deletion (`forget`) has no revision that we are told. Its UID is remembered instead, since
  an object that is gone never comes back under the same UID, and events of it are skipped until the
  watch tells of the deletion itself. The same is done, up to a revision, for an own write that
  takes an object out of what the informer selects.
* Handlers hear of an own write later than reads do: by `tell`, or with the next event. A writer
  does not wait for them, and they hear of all changes in the order in which these were taken in.
* A list replaces everything that is not newer than it. A list is never older than what we knew when
  we asked for it; if it is, the server was restored from a backup, history has begun anew, and the
  list is taken as it is.

A key that is not here proves nothing: ask the server (design rule: a cache never proves absence).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec
import structlog

from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import Key, key_of

T = TypeVar("T", bound=Object)

NEVER = float("inf")
MAX_GONE = 4096  # forgetting one too early shows a deleted object for a moment, nothing worse

log = structlog.get_logger(__name__)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after; None is absence."""

    key: Key
    old: T | None
    new: T | None

    @property
    def type(self) -> Literal["added", "updated", "deleted"]:
        if self.new is None:
            return "deleted"
        return "added" if self.old is None else "updated"


class Index(Generic[T]):
    """Objects by whatever a function says of them. Made by `Cache.index`."""

    def __init__(self, items: Mapping[Key, T], values: Callable[[T], Iterable[Hashable]]) -> None:
        self._items = items
        self.values_of = values
        self.noted: dict[Key, tuple[Hashable, ...]] = {}  # the values of each object
        self._buckets: dict[Hashable, set[Key]] = {}

    def get(self, value: Hashable) -> list[T]:
        """Return the objects that have this value, in the order of their keys."""
        return list(map(self._items.__getitem__, sorted(self._buckets.get(value, ()))))

    def count(self, value: Hashable) -> int:
        return len(self._buckets.get(value, ()))

    def values(self) -> list[Hashable]:
        """Return every value that some object has."""
        return list(self._buckets)

    def put(self, key: Key, values: tuple[Hashable, ...]) -> None:
        """Note an object under its values, instead of those it had before."""
        for value in self.noted.pop(key, ()):
            bucket = self._buckets[value]
            bucket.discard(key)
            if not bucket:
                del self._buckets[value]
        if values:
            self.noted[key] = values
            for value in values:
                self._buckets.setdefault(value, set()).add(key)


def by_label(name: str) -> Callable[[Object], Iterable[str]]:
    """Index by the value of a label."""

    def values(item: Object) -> Iterable[str]:
        value = item.metadata.labels.get(name)
        return () if value is None else (value,)

    return values


def by_owner(item: Object) -> Iterable[str]:
    """Index by the UIDs of the owners."""
    return [owner.uid for owner in item.metadata.owner_references]


class Mark(NamedTuple):
    """What was known when a list was asked for."""

    newest: int
    gone: frozenset[str]


class Cache(dict[Key, T]):
    """The objects of one resource by `(namespace, name)`: to read, and changed only from here.

    A dict itself, since reads are many: a method of ours for each would cost more than the look-up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.revision = 0  # everything the server did up to here is reflected
        self._newest = 0
        # UID -> events of it below this revision are old news
        self._gone: OrderedDict[str, float] = OrderedDict()
        self._indexes: list[Index[T]] = []
        # Replaced, never changed: whoever is telling them goes on with those there were.
        self._handlers: tuple[Callable[[Change[T]], None], ...] = ()
        self.untold: deque[Change[T]] = deque()  # handlers have not heard of these

    def index(self, values: Callable[[T], Iterable[Hashable]]) -> Index[T]:
        """Keep an index from now on: `by_label(…)`, `by_owner` or any pure function."""
        index = Index(self, values)
        for key, item in self.items():
            index.put(key, tuple(values(item)))
        self._indexes.append(index)
        return index

    def subscribe(self, handler: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `handler` for every change, beginning with what is there; returns how to stop.

        Handlers run in order and must not block: put a key into a queue and return. Lists and
        events are told at once, own writes by the next `tell`: the cache can be ahead of a change.
        """
        self.tell()
        for key, item in list(self.items()):
            self._tell((handler,), Change(key, None, item))
        self._handlers = (*self._handlers, handler)

        def stop() -> None:
            left = list(self._handlers)
            left.remove(handler)
            self._handlers = tuple(left)

        return stop

    def mark(self) -> Mark:
        """Take note of what is known; call it before asking for a list."""
        return Mark(self._newest, frozenset(self._gone))

    def replace(self, mark: Mark, items: Iterable[T], revision: int) -> bool:
        """Take over a list that was asked for after `mark`; False if history began anew.

        Own writes may come in between, events may not: who lists does not watch.
        """
        restored = revision < mark.newest
        if restored:
            self._gone.clear()
        listed = {key_of(item): item for item in items}
        for key, item in listed.items():
            held = self.get(key)
            if restored:
                if held != item:
                    self._put(key, item)
            elif held is not None and version(item) < version(held) <= revision:
                self._put(key, item)  # what we hold was answered and never came to be
            elif version(item) >= self._gone.get(item.metadata.uid, 0) and _newer(item, held):
                self._put(key, item)
        for key in [key for key in self if key not in listed]:
            if restored or version(self[key]) <= revision:
                self._put(key, None)
        for uid in mark.gone:
            self._gone.pop(uid, None)
        self.revision = revision
        self._newest = revision if restored else max(self._newest, revision)
        return not restored

    @property
    def ahead(self) -> bool:
        """Whether own writes are in here that the watch has not told of yet."""
        return self._newest > self.revision

    def holds(self, key: Key, resource_version: str) -> bool:
        """Whether this version of an object is here, or a newer one: its event is no news."""
        held = self.get(key)
        return held is not None and version(held) >= int(resource_version)

    def apply(self, item: T, *, deleted: bool = False) -> None:
        """Take over a watch event."""
        revision = version(item)
        if revision < self.revision:
            return
        self.bookmark(revision)
        key, uid = key_of(item), item.metadata.uid
        until = self._gone.get(uid)
        if until is not None:
            if revision >= until or (deleted and until == NEVER):
                del self._gone[uid]
            elif not deleted:
                return
        held = self.get(key)
        if not deleted:
            if held is None or revision > version(held):
                self._put(key, item)
        elif held is not None and version(held) <= revision:
            self._put(key, None)

    def drop(self, key: Key, revision: int) -> None:
        """Leave out an object that the watch told of but that cannot be read."""
        self.bookmark(revision)
        held = self.get(key)
        if held is not None and version(held) <= revision:
            self._put(key, None)

    def bookmark(self, revision: int) -> None:
        """Note that everything up to `revision` has been told: a bookmark, or what was no news."""
        if revision > self.revision:
            self.revision = revision
        if revision > self._newest:
            self._newest = revision

    def observe(self, item: T, *, selected: bool = True) -> None:
        """Merge the answer to an own write; old news changes nothing."""
        revision, uid = version(item), item.metadata.uid
        if revision <= self.revision or revision < self._gone.get(uid, 0):
            return
        if revision > self._newest:
            self._newest = revision
        key = key_of(item)
        held = self.get(key)
        if held is not None and revision <= version(held):
            return
        if selected:
            self._gone.pop(uid, None)
            self._note(key, item)
            return
        self._remember_gone(uid, revision)
        if held is not None:
            self._note(key, None)

    def forget(self, item: Object) -> None:
        """Merge an own deletion: the server has said that the object is gone."""
        self._remember_gone(item.metadata.uid, NEVER)
        held = self.get(key_of(item))
        if held is not None and held.metadata.uid == item.metadata.uid:
            self._note(key_of(item), None)

    def tell(self) -> None:
        """Tell the handlers of all that they have not heard of."""
        while self.untold:
            self._tell(self._handlers, self.untold.popleft())

    def _remember_gone(self, uid: str, until: float) -> None:
        self._gone[uid] = until
        while len(self._gone) > MAX_GONE:
            self._gone.popitem(last=False)

    def _put(self, key: Key, item: T | None) -> None:
        self._note(key, item)
        self.tell()

    def _note(self, key: Key, item: T | None) -> None:
        change = Change(key, self.get(key), item)
        # All that may raise comes first: a change is taken in whole or not at all.
        moves = []
        for index in self._indexes:
            values = () if item is None else tuple(index.values_of(item))
            if values != index.noted.get(key, ()):
                moves.append((index, values))
        if item is None:
            self.pop(key, None)
        else:
            self[key] = item
        for index, values in moves:
            index.put(key, values)
        self.untold.append(change)

    @staticmethod
    def _tell(handlers: Iterable[Callable[[Change[T]], None]], change: Change[T]) -> None:
        for handler in handlers:
            try:
                handler(change)
            except Exception:  # one bad listener must not blind all the others
                log.exception("cache.handler_failed", key=str(change.key), change=change.type)


def version(item: Object) -> int:
    """Return the resourceVersion as the number it is."""
    return int(item.metadata.resource_version)


def _newer(item: Object, held: Object | None) -> bool:
    return held is None or version(item) > version(held)
