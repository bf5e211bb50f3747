"""Makes writes durable: one thread, one SQLite connection, one commit for all that is waiting.

loop: Store.submit ──► queue ──► writer: INSERT, fsync ──► loop: one callback for the whole batch

While one commit waits for the disk the next batch gathers, so throughput grows with the number of
writers and nobody waits longer than two commits. The thread touches Python rarely on purpose: each
SQLite call gives up the interpreter lock and a busy event loop may take milliseconds to hand it
back, so a usual batch is a single multi-row INSERT that commits by itself.

A commit that fails on a full disk is tried again as often as `make_room` gives some of the reserve
up for it (`ballast.py`), within bounds.

When a commit fails, everything behind it was decided on a state that will never be: the whole
generation of batches fails, and the loop starts the next one from what is on disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from boilerhouse.embedded.apiserver.storage.change import Change, Stored
from boilerhouse.embedded.apiserver.storage.checkpoint import Checkpointer
from boilerhouse.embedded.apiserver.storage.database import (
    StoreFailed,
    close_unmoved,
    connect,
    insert_rows,
    newest_revision,
)
from boilerhouse.embedded.apiserver.storage.history import Past
from boilerhouse.platform.files.ballast import MakeRoom, no_room

# Limits of one commit: what the loop can publish without a noticeable pause.
MAX_BATCH = 256
MAX_BATCH_BYTES = 8 << 20
# Rows of one INSERT. SQLite keeps each length's statement prepared, so there are not too many.
MAX_ROWS = 64
# How often a commit is tried with more room: somebody else may take each piece of it.
MAX_TRIES = 3


class Trim(msgspec.Struct, frozen=True):
    """Versions that nothing refers to any more; changes up to `oldest` have left the history."""

    oldest: int
    versions: list[Past]


class Transaction(msgspec.Struct, frozen=True, eq=False):
    """What is committed together, and who waits for it."""

    generation: int
    changes: list[Change]
    size: int
    future: asyncio.Future[list[Stored]] | None = None
    deferred: bool = False  # who wanted it has been answered
    trim: Trim | None = None


Done = Callable[[int, str], None]


class Journal:
    """The writer thread. `done(count, failure)` is called on the loop, once per batch, in order.

    `failure` is empty when the oldest `count` transactions are on disk, and otherwise says why
    everything of that generation failed.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, make_room: MakeRoom = no_room) -> None:
        self._path = path
        self._db = db
        self._make_room = make_room
        self._newest = newest_revision(db)
        self._suspect = False
        self._between_connections = False
        self._failed_generation = -1
        self._checkpointer = Checkpointer(path, self._reopen)
        self._queue: SimpleQueue[Sequence[Transaction] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        self._loop, self._done = loop, done
        self._checkpointer.start()
        self._thread.start()

    def put(self, transactions: Sequence[Transaction]) -> None:
        """Queue transactions, to be committed together; never blocks."""
        self._queue.put(transactions)

    def stop(self) -> None:
        """Commit what is queued, then let go of the files. Blocks."""
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._checkpointer.stop()
        self._db.close()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._gather()
            if not batch:
                continue
            failure = self._try(batch)
            if failure:
                self._failed_generation = batch[-1].generation
            try:
                self._loop.call_soon_threadsafe(self._done, len(batch), failure)
            except RuntimeError:
                return  # the loop is gone, and with it everyone who could be told

    def _gather(self) -> tuple[list[Transaction], bool]:
        """Wait for transactions and take what else is there; True once it is time to stop."""
        batch: list[Transaction] = []
        size = 0
        transactions = self._queue.get()
        while transactions is not None:
            if transactions[0].generation > self._failed_generation:
                batch += transactions
                size += sum(transaction.size for transaction in transactions)
            if len(batch) >= MAX_BATCH or size >= MAX_BATCH_BYTES:
                return batch, False
            try:
                transactions = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _try(self, batch: Sequence[Transaction]) -> str:
        failure = ""
        for _ in range(MAX_TRIES):
            failure = self._try_once(batch)
            if not failure or not self._more_room():
                break
        return failure

    def _more_room(self) -> bool:
        try:
            return self._make_room()
        except OSError:
            return False

    def _try_once(self, batch: Sequence[Transaction]) -> str:
        try:
            with self._checkpointer.between_commits:
                if self._suspect:
                    self._recover()
                self._commit(batch)
                self._checkpointer.wrote(sum(transaction.size for transaction in batch))
        # Whatever it is, those who wait must hear of it and the thread must live on.
        except Exception as error:  # noqa: BLE001
            self._suspect = True
            return str(error) or type(error).__name__
        return ""

    def _commit(self, batch: Sequence[Transaction]) -> None:
        changes = [change for transaction in batch for change in transaction.changes]
        trims = [transaction.trim for transaction in batch if transaction.trim is not None]
        alone = not trims and len(changes) <= MAX_ROWS
        if not alone:
            self._db.execute("BEGIN IMMEDIATE")
        self._insert(changes)
        for trim in trims:
            self._db.execute(
                "DELETE FROM version WHERE revision IN (SELECT value FROM json_each(?))",
                (str([version.revision for version in trim.versions]),),
            )
            self._db.execute("UPDATE history SET oldest = ?", (trim.oldest,))
        if not alone:
            self._db.execute("COMMIT")
        if changes:
            self._newest = changes[-1].revision

    def _insert(self, changes: Sequence[Change]) -> None:
        for start in range(0, len(changes), MAX_ROWS):
            rows = changes[start : start + MAX_ROWS]
            values: list[object] = []
            for change in rows:
                deleted = change.type == "DELETED"
                values += (change.revision, deleted, *change.key, change.object.raw)
            self._db.execute(insert_rows(len(rows)), values)

    def _reopen(self) -> None:
        """Let SQLite forget what it has moved into the file; called with commits held."""
        if self._suspect and not self._between_connections:
            self._recover()
            self._bury()
        self._suspect = self._between_connections = True
        close_unmoved(self._path, self._db, self._checkpointer.db)
        self._checkpointer.connect()
        self._db = connect(self._path)
        self._between_connections = False

    def _bury(self) -> None:
        """Overwrite the commit that failed and lies at the end of the log.

        Whoever reads the log anew would take it for one that happened.
        """
        self._db.execute("BEGIN IMMEDIATE")
        for step in (1, -1):  # SQLite writes nothing if nothing changes
            self._db.execute("UPDATE history SET oldest = oldest + ?", (step,))
        self._db.execute("COMMIT")

    def _recover(self) -> None:
        """Get back to a connection that agrees with us about what was committed last."""
        if self._between_connections:
            raise StoreFailed(
                f"{self._path}: the disk has failed, and it cannot be opened anew yet"
            )
        try:
            self._db.rollback()
            newest = newest_revision(self._db)
        except sqlite3.Error:
            self._db.close()
            self._db = connect(self._path)
            newest = newest_revision(self._db)
        # A commit reported as failed must not have happened after all: the loop has moved on.
        if newest != self._newest:
            raise StoreFailed(
                f"{self._path} is at revision {newest} instead of {self._newest}: restart to go on"
            )
        self._suspect = False
