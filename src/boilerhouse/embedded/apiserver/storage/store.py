"""The objects of the embedded API: durable, ordered, read from memory.

submit ──► head (at once) ──► journal (disk) ──► committed objects ──► watchers and the caller

Everything runs on one event loop. A write is decided on the *head*, which has every write so far,
and is applied to it at once: "read head, validate, submit" without an `await` in between needs no
lock. Everyone else reads what is *committed*: objects, watch events and futures advance only when
the write is on disk, so nothing that was seen can be taken back by a crash.

A write may be *deferred* (`submit(deferred=True)`): answered before it is on disk, to a caller in
this process that makes several writes in a row and answers its own caller after the last of them.
Commits are in order, and one that fails takes everything behind it with it, so the last stands for
all of them; and they share one commit. If it fails, what was answered is not so: every watch is
broken off, and caches list anew.

Revisions only grow. One that belonged to a failed commit is not used again while the process lives.
One that was never committed when the process died was shown to nobody and may come again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from boilerhouse.embedded.apiserver.storage.change import Change, Key, Put, Remove, Stored
from boilerhouse.embedded.apiserver.storage.database import (
    StoreFailed,
    database_file,
    oldest_revision,
    open_database,
    read_versions,
    reason,
)
from boilerhouse.embedded.apiserver.storage.datadirectory import make_directory
from boilerhouse.embedded.apiserver.storage.datalock import DataLock, StoreLocked
from boilerhouse.embedded.apiserver.storage.history import (
    MAX_BYTES,
    MAX_CHANGES,
    Expired,
    History,
    Overrun,
    Past,
    Subscription,
)
from boilerhouse.embedded.apiserver.storage.index import Index, place
from boilerhouse.embedded.apiserver.storage.journal import Journal, Transaction, Trim
from boilerhouse.platform.files.ballast import MakeRoom, no_room

__all__ = [
    "Change",
    "Expired",
    "Key",
    "Overrun",
    "Put",
    "Remove",
    "Store",
    "StoreFailed",
    "StoreLocked",
    "Stored",
    "Subscription",
]

# How much may wait for the disk before writers are turned away.
MAX_PENDING = 10_000
MAX_DEFERRED = 256
# Of writes that are answered ahead, one in so many is answered in the next turn of the event loop.
YIELD_EVERY = 16
MAX_PENDING_BYTES = 256 << 20
# Past versions are removed from disk this many at a time, or this many bytes.
TRIM_AT = 256
TRIM_AT_BYTES = 4 << 20
# Seconds that a write which was answered ahead waits for the one that follows.
LONGEST_DEFERRED = 0.01


@dataclass(slots=True)
class _Opened:
    """What a thread has brought up from disk."""

    lock: DataLock
    journal: Journal
    committed: Index
    head: Index
    history: History
    past: list[Past]


class Store:
    """Open with `Store.open`; use from that event loop only."""

    def __init__(self, opened: _Opened) -> None:
        self._lock = opened.lock
        self._journal = opened.journal
        self._committed = opened.committed
        self._head = opened.head
        # What is committed, and the newest state, writes included that are not on disk yet.
        self.get = opened.committed.get
        self.head = opened.head.get
        self.scan_head = opened.head.scan
        self._history = opened.history
        self._past: list[Past] = []
        self._past_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._last = opened.history.revision
        self._pending: deque[Transaction] = deque()
        self._pending_bytes = 0
        self._ahead: list[Transaction] = []  # the newest of the pending, not in the journal yet
        self._ahead_until: asyncio.TimerHandle | None = None
        self._answered = 0  # how many writes were answered ahead
        self._promised = 0  # the newest revision that was answered ahead
        self._generation = 0
        self._closed = False
        self._followers: tuple[Callable[[list[Change]], None], ...] = ()
        self.trouble = ""  # why the newest write failed; nothing if it did not
        self._journal.start(self._loop, self._done)
        self._trim(opened.past)

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        history: int = MAX_CHANGES,
        history_bytes: int = MAX_BYTES,
        make_room: MakeRoom = no_room,
    ) -> Store:
        """Take the data directory and load it. Raises `StoreLocked` or `StoreFailed`.

        `make_room` is called, from threads, before it gives in to a full disk.

        Of what was replaced or deleted, the last `history` changes are kept, as long as their
        versions take no more than `history_bytes`.
        """
        opening = asyncio.get_running_loop().run_in_executor(
            None, _open, directory, history, history_bytes, make_room
        )
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_abandon)
            raise

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        return self._history.revision

    @property
    def oldest(self) -> int:
        """A watch may start from this revision or a newer one."""
        return self._history.oldest

    @property
    def unsettled(self) -> bool:
        """Whether the head is ahead of what is on disk; `await submit()` waits for the disk."""
        return bool(self._pending)

    def scan(self, resource: str, namespace: str = "") -> list[Stored]:
        """List the committed objects in the order of `place`; "" means every namespace."""
        return self._committed.scan(resource, namespace)

    def scan_at(self, resource: str, revision: int, namespace: str = "") -> list[Stored]:
        """List the objects as they were at a retained revision. Raises `Expired`.

        Costs as much as was changed since, so that the pages of a list can show one moment.
        """
        changes = self._history.changes(resource, revision, namespace)
        if not changes:
            return self.scan(resource, namespace)
        state: dict[Key, Stored] = {stored.key: stored for stored in self.scan(resource, namespace)}
        for change in reversed(changes):
            if change.previous is None:
                state.pop(change.key, None)
            else:
                state[change.key] = change.previous
        return [state[key] for key in sorted(state, key=place)]

    def submit(self, *writes: Put | Remove, deferred: bool = False) -> asyncio.Future[list[Stored]]:
        """Apply the writes to the head now, together; the result comes when they are on disk.

        All or none of them happen. Each gets a revision of its own, in order. A write that was
        submitted happens even if its future is cancelled. The future fails with `StoreFailed` when
        the disk refuses, or too much is waiting for it: then none of the writes happened, except
        that a power loss right after a failing fsync leaves it open. Removing an object that the
        head does not have is a mistake of the caller: ValueError.

        With `deferred` the result is there at once, as a promise that only a later write keeps;
        unless `MAX_DEFERRED` writes wait for the disk. Awaiting what is there does not yield, so a
        loop of such writes would keep the event loop: each `YIELD_EVERY`th result comes later.
        """
        future: asyncio.Future[list[Stored]] = self._loop.create_future()
        waiting = len(self._pending)
        if self._closed or waiting >= MAX_PENDING or self._pending_bytes >= MAX_PENDING_BYTES:
            busy = f"the store is busy: {waiting} writes wait for the disk"
            future.set_exception(StoreFailed("the store is closed" if self._closed else busy))
            return future
        deferred = deferred and waiting < MAX_DEFERRED
        changes: list[Change] = []
        size = 0
        try:
            for revision, write in enumerate(writes, self._last + 1):
                change = self._change(revision, write)
                self._head.set(change.key, change.left)
                changes.append(change)
                size += change.size
        except BaseException:
            for change in reversed(changes):
                self._head.set(change.key, change.previous)
            raise
        self._last += len(changes)
        self._enqueue(Transaction(self._generation, changes, size, future, deferred))
        if deferred:
            self._promised = self._last
            self._answered += 1
            if self._answered % YIELD_EVERY:
                _answer(future, changes)
            else:
                self._loop.call_soon(_answer, future, changes)
        return future

    def flush(self) -> asyncio.Future[list[Stored]]:
        """Wait until all that was written so far is on disk."""
        return self.submit()

    async def wait_durable(self, key: Key | None = None) -> None:
        """Wait until what was answered ahead is on disk, or has failed: all of it, or one object.

        So that a reader of what is committed finds whatever anybody has been told.
        """
        if self._promised <= self.revision:
            return
        if key is None or self.head(key) is not self.get(key):
            with contextlib.suppress(StoreFailed):
                await self.flush()

    def watch(self, resource: str, since: int, namespace: str = "", name: str = "") -> Subscription:
        """Subscribe to the changes after `since`, retained ones first. Raises `Expired`.

        `since` may lie in the future; changes up to it are then left out. Who gives a `name` need
        not hear of objects that are called otherwise, and may all the same.
        """
        return self._history.watch(resource, since, namespace, name)

    def follow(self, see: Callable[[list[Change]], None]) -> Callable[[], None]:
        """Have `see` called with what every commit changes, from now on; returns how to stop.

        At once and before anything else happens on the loop: it takes note, and must not raise.
        """
        self._followers = (*self._followers, see)

        def stop() -> None:
            self._followers = tuple(one for one in self._followers if one is not see)

        return stop

    async def close(self) -> None:
        """Finish what was submitted, end every subscription, release the directory."""
        if self._closed:
            return
        self._closed = True
        self._hand_over()
        try:
            await self._loop.run_in_executor(None, _let_go, self._journal, self._lock)
        finally:
            self._history.close()

    def _change(self, revision: int, write: Put | Remove) -> Change:
        """Work out what a write does. Everything that can go wrong does so here."""
        key = write.key
        # A lone surrogate would only be found by the writer, and fail everyone's writes.
        "".join(key).encode()
        previous = self.head(key)
        deleted = isinstance(write, Remove)
        if deleted and previous is None:
            raise ValueError(f"{'/'.join(key)} is not there to be removed")
        return Change.of(Stored.stamp(key, revision, write.body), previous, deleted=deleted)

    def _enqueue(self, transaction: Transaction) -> None:
        self._pending.append(transaction)
        self._pending_bytes += transaction.size
        self._ahead.append(transaction)
        if not transaction.deferred:
            self._hand_over()
        elif self._ahead_until is None:
            self._ahead_until = self._loop.call_later(LONGEST_DEFERRED, self._hand_over)

    def _hand_over(self) -> None:
        """Let the journal have everything that is pending, in order."""
        if self._ahead_until is not None:
            self._ahead_until.cancel()
            self._ahead_until = None
        if self._ahead:
            self._journal.put(self._ahead)
            self._ahead = []

    def _done(self, count: int, failure: str) -> None:
        self.trouble = failure
        if failure:
            self._fail(failure)
        else:
            self._publish([self._pending.popleft() for _ in range(count)])

    def _publish(self, transactions: list[Transaction]) -> None:
        changes: list[Change] = []
        # Who has written goes on before who watches: a client that merges the answer into what it
        # knows finds nothing new in the event, and somebody may wait for that answer.
        for transaction in transactions:
            changes += transaction.changes
            self._pending_bytes -= transaction.size
            if transaction.future is not None:
                _answer(transaction.future, transaction.changes)
        for change in changes:
            self._committed.set(change.key, change.left)
        past = self._history.publish(changes)
        for see in self._followers:
            see(changes)
        if past:
            self._trim(past)

    def _trim(self, past: list[Past]) -> None:
        """Have versions removed from disk once there are enough of them to be worth a commit."""
        self._past += past
        self._past_bytes += sum(version.size for version in past)
        enough = len(self._past) >= TRIM_AT or self._past_bytes >= TRIM_AT_BYTES
        if enough and not self._closed:
            trim = Trim(self._history.oldest, self._past)
            self._past, self._past_bytes = [], 0
            self._enqueue(Transaction(self._generation, [], 0, trim=trim))

    def _fail(self, failure: str) -> None:
        """Forget every write that is not on disk, and say so to whoever waits for it."""
        self._hand_over()  # of a generation that has failed: the journal will drop it
        self._promised = 0
        failed, self._pending, self._pending_bytes = self._pending, deque(), 0
        self._generation += 1
        for transaction in failed:
            if transaction.trim is not None:
                self._past += transaction.trim.versions
                self._past_bytes += sum(version.size for version in transaction.trim.versions)
            for change in transaction.changes:
                self._head.set(change.key, self.get(change.key))
        for transaction in failed:
            if transaction.future is not None and not transaction.future.done():
                transaction.future.set_exception(
                    StoreFailed(f"the write could not be stored: {failure}")
                )
        if any(transaction.deferred for transaction in failed):
            self._history.break_off()


def _answer(future: asyncio.Future[list[Stored]], changes: list[Change]) -> None:
    if not future.done():
        future.set_result([change.object for change in changes])


def _open(directory: Path, limit: int, max_bytes: int, make_room: MakeRoom) -> _Opened:
    """Lock, check and load the data directory. Blocks."""
    try:
        make_directory(directory)
        lock = DataLock(directory)
    except OSError as error:
        raise StoreFailed(f"{directory} cannot be used: {error}") from error
    try:
        db = open_database(directory, make_room)
        try:
            history = History(limit, oldest_revision(db), max_bytes)
            return _load(directory, history, lock, db, make_room)
        except BaseException as error:
            db.close()
            if not isinstance(error, sqlite3.Error):
                raise
            path = database_file(directory)
            raise StoreFailed(f"{path} cannot be read: {reason(error, directory)}") from error
    except BaseException:
        lock.release()
        raise


def _load(
    directory: Path,
    history: History,
    lock: DataLock,
    db: sqlite3.Connection,
    make_room: MakeRoom,
) -> _Opened:
    path = database_file(directory)
    began = history.oldest
    live: dict[Key, Stored] = {}
    past: list[Past] = []
    for deleted, stored in read_versions(db, path):
        previous = live.pop(stored.key, None)
        if not deleted:
            live[stored.key] = stored
        if stored.revision > began:
            # One by one, so that what is past goes before more is read.
            past += history.publish([Change.of(stored, previous, deleted=deleted)])
    committed, head = Index(live.values()), Index(live.values())
    return _Opened(lock, Journal(path, db, make_room), committed, head, history, past)


def _abandon(opening: asyncio.Future[_Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opened = opening.result()
        opening.get_loop().run_in_executor(None, _let_go, opened.journal, opened.lock)


def _let_go(journal: Journal, lock: DataLock) -> None:
    try:
        journal.stop()
    finally:
        lock.release()
