"""Moves SQLite's write-ahead log into the database file, in a thread of its own.

writer ──► wal ──(enough written)──► Checkpointer ──► kube.db

A checkpoint costs an fsync of the database file; done by the writer it would show up as a slow
commit now and then. Here it runs beside the commits. Only when the log has grown large although it
was moved (steady writing never lets it start over) it is cut, with commits held for that moment.

SQLite before 3.51.3 can lose pages when a checkpoint *starts* on a log that has already been moved
completely while a commit starts the log over (the "WAL-reset bug"). `between_commits` keeps us out
of that window: a checkpoint starts only if a commit was finished after the last checkpoint ended.

A checkpoint that was overtaken by a commit leaves the sync to the next one. If that sync fails, the
kernel may have dropped pages of both, and SQLite would copy only the second's again. So after any
failure both connections are opened anew, and all of the log is copied.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from boilerhouse.embedded.apiserver.storage.database import StoreFailed, connect, wal_file

log = structlog.get_logger(__name__)

# Bytes of objects between two checkpoints, and the size at which the log is cut.
EVERY = 4 << 20
CUT_AT = 64 << 20
# Seconds until the next try to open the connections anew.
RETRY = 1.0
# What a commit adds to the log beside the objects: the pages around them.
COMMIT_OVERHEAD = 16 << 10


class Checkpointer:
    """`anew` opens the connections anew, this one too, with commits held."""

    def __init__(self, path: Path, anew: Callable[[], None]) -> None:
        self._path = path
        self._wal = wal_file(path)
        self._anew = anew
        self.connect()
        # What a killed process left counts too, or its log would grow from life to life.
        self._written = self._wal.stat().st_size if self._wal.exists() else 0
        self._due = threading.Event()
        self._stopping = False
        # Held by the writer from the start of a commit until `wrote`.
        self.between_commits = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="store-checkpoint", daemon=True)

    def connect(self) -> None:
        # It never waits for other processes: the next round is soon enough.
        self.db = connect(self._path, busy_seconds=0)

    def start(self) -> None:
        self._thread.start()

    def wrote(self, size: int) -> None:
        """Note a finished commit; called with `between_commits` held."""
        self._written += size + COMMIT_OVERHEAD
        if self._written >= EVERY:
            self._due.set()

    def stop(self) -> None:
        """Let a running checkpoint end and close the connection. Blocks."""
        self._stopping = True
        self._due.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.db.close()

    def _run(self) -> None:
        while True:
            self._due.wait()
            if self._stopping:
                return
            try:
                self._checkpoint()
            except (sqlite3.Error, OSError) as error:
                # Nothing is lost: the log still holds it all, and the next commit asks again.
                log.warning("store.checkpoint_failed", file=str(self._wal), error=str(error))
                while not self._started_over() and not self._stopping:
                    time.sleep(RETRY)

    def _checkpoint(self) -> None:
        self.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with self.between_commits:
            if self._wal.stat().st_size > CUT_AT:
                busy, _, _ = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    log.warning(
                        "store.log_not_cut", file=str(self._wal), reason="read by another process"
                    )
            self._rest()

    def _started_over(self) -> bool:
        with self.between_commits:
            try:
                self._anew()
            except (sqlite3.Error, OSError, StoreFailed) as error:
                log.warning("store.not_reopened", file=str(self._path), error=str(error))
                return False
            self._rest()
            return True

    def _rest(self) -> None:
        self._written = 0
        if not self._stopping:
            self._due.clear()
