"""The SQLite file under the store: made whole or not at all, checked at every open, read once.

kube.db.new ──► schema ──► rename onto kube.db          (birth: an empty or headless file is damage)
kube.db ──► quick_check, schema version ──► rows in order of revision ──► memory

One table holds every version that anything still refers to: the live objects, the retained changes,
and the versions those changes replaced. So a write is one appended row, and a restart knows what
each retained change looked like before.

Never open this file with plain `open()` in the process of the store: closing it would drop SQLite's
own locks on it (POSIX advisory locks belong to the process).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from boilerhouse.embedded.apiserver.storage.change import Key, Stored
from boilerhouse.platform.files.ballast import MakeRoom, no_room
from boilerhouse.platform.files.durable import sync_directory

SCHEMA_VERSION = 1
# The revision of an empty store; "0" has a meaning of its own in the Kubernetes API.
FIRST_REVISION = 1
# How long a commit waits while another process holds SQLite's write lock.
BUSY_SECONDS = 2.0
SYNCHRONOUS = "FULL"
# What an open takes at least: the index of the log has pieces of this size.
_ROOM = 32 * 1024
_PIECE = 1 << 20
# Where SQLite puts the lock that everybody holds who has the file open.
_SHARED = (0x4000_0002, 510)

_SCHEMA = f"""
CREATE TABLE version (
    revision INTEGER PRIMARY KEY,
    deleted INTEGER NOT NULL,
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    raw BLOB NOT NULL
);
CREATE TABLE history (oldest INTEGER NOT NULL);
INSERT INTO history VALUES ({FIRST_REVISION});
PRAGMA user_version = {SCHEMA_VERSION};
"""  # noqa: S608 - constants


class StoreFailed(Exception):
    """The store could not be opened, or could not make a write durable. Says why."""


class Row(NamedTuple):
    deleted: bool
    stored: Stored


def database_file(directory: Path) -> Path:
    return directory / "kube.db"


def wal_file(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def connect(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Connect, for one thread at a time; a statement commits by itself unless BEGIN came first."""
    # mode=rw: a file that has gone must not come back empty.
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # A commit returns after its fsync; the checkpoint thread alone moves the log into the file.
        db.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        db.execute("PRAGMA wal_autocheckpoint=0")
    except BaseException:
        db.close()
        raise
    return db


def close_unmoved(path: Path, *connections: sqlite3.Connection) -> None:
    """Close every connection of this process, and leave the log as it is.

    SQLite moves the log into the file when the last connection closes. It must not after a sync of
    the file has failed: it remembers what it had copied before as done, although the kernel may
    have dropped that. The next to connect finds nobody who remembers, and copies everything again.
    """
    # A lock of its own kind, which counts as another process's: "the last connection" is not ours.
    other = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _lock(other, fcntl.F_RDLCK)
        for connection in connections:
            connection.close()
        try:
            _lock(other, fcntl.F_WRLCK)
        except BlockingIOError:
            raise StoreFailed(f"{path} is open in another process: close it there") from None
    finally:
        os.close(other)


def _lock(fd: int, kind: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, *_SHARED, 0))


def open_database(directory: Path, make_room: MakeRoom = no_room) -> sqlite3.Connection:
    """Create or check the database and connect to it. Raises `StoreFailed` with the file's name."""
    try:
        return _open(directory)
    except StoreFailed:
        if not make_room():
            raise
    return _open(directory)


def _open(directory: Path) -> sqlite3.Connection:
    path = database_file(directory)
    try:
        _clear_away(_newborn(path))
        if not path.exists():
            _create(path)
        _write_again(wal_file(path))
        db = connect(path)
        try:
            _check(db, path)
        except BaseException:
            db.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise StoreFailed(f"{path} cannot be opened: {reason(error, directory)}") from error
    return db


def reason(error: Exception, directory: Path) -> str:
    """Say why the database fails: SQLite calls a full disk an "I/O error", so the disk is asked."""
    probe = directory / ".room"
    try:
        with probe.open("xb") as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as refusal:
        if refusal.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
            return f"{refusal.strerror} ({error})"
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return str(error)


def oldest_revision(db: sqlite3.Connection) -> int:
    """Return the revision up to which changes have left the history."""
    return int(db.execute("SELECT oldest FROM history").fetchone()[0])


def newest_revision(db: sqlite3.Connection) -> int:
    newest = db.execute("SELECT max(revision) FROM version").fetchone()[0]
    return FIRST_REVISION if newest is None else int(newest)


def read_versions(db: sqlite3.Connection, path: Path) -> Iterator[Row]:
    """Yield every version in order of revision. Raises `StoreFailed` on one that is damaged."""
    names: dict[str, str] = {}
    query = "SELECT revision, deleted, resource, namespace, name, raw FROM version ORDER BY 1"
    for revision, deleted, resource, namespace, name, raw in db.execute(query):
        key = Key(
            names.setdefault(resource, resource), names.setdefault(namespace, namespace), name
        )
        try:
            stamped = _stamp_of(raw).metadata.resourceVersion
        except msgspec.MsgspecError as error:
            raise StoreFailed(f"{path} is damaged: {'/'.join(key)} ({error})") from error
        if stamped != str(revision):
            raise StoreFailed(
                f"{path} is damaged: {'/'.join(key)} says it is version {stamped}, not {revision}"
            )
        yield Row(bool(deleted), Stored(key, revision, None, raw))


@cache
def insert_rows(count: int) -> str:
    """Return the statement that inserts this many versions."""
    rows = ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
    return f"INSERT INTO version (revision, deleted, resource, namespace, name, raw) VALUES {rows}"  # noqa: S608 - constants


def _create(path: Path) -> None:
    if wal_file(path).exists():
        raise StoreFailed(
            f"{path} is missing but {wal_file(path).name} is there: restore the file from a backup,"
            " or move the rest of the data directory away to start empty"
        )
    newborn = _newborn(path)
    os.close(os.open(newborn, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db = connect(newborn)
    try:
        # Without a write-ahead log yet: the commit puts everything into the one file, and syncs it.
        db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
    finally:
        db.close()
    newborn.rename(path)
    sync_directory(path.parent)


def _newborn(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _clear_away(newborn: Path) -> None:
    """Remove what a crash left of an unfinished birth: nothing was ever stored in it."""
    for leftover in newborn.parent.glob(newborn.name + "*"):
        leftover.unlink()


def _write_again(log: Path) -> None:
    """Make the log of a killed process last as it reads, before anybody sees it or builds upon it.

    The end of it may never have been synced; or a sync failed, and then no later sync writes what
    the kernel has called clean since. Writing the same once more does.
    """
    if not log.exists():
        return
    with log.open("r+b", buffering=0) as file:
        while piece := file.read(_PIECE):
            file.seek(-len(piece), os.SEEK_CUR)
            file.write(piece)
        os.fsync(file.fileno())


def _check(db: sqlite3.Connection, path: Path) -> None:
    # An empty file is a valid, empty database to SQLite. To us it is one that lost its content.
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise StoreFailed(
            f"{path} was written by a newer Boilerhouse (schema {version}, this one knows up to"
            f" {SCHEMA_VERSION}): run that version"
        )
    if version != SCHEMA_VERSION:
        raise StoreFailed(
            f"{path} is empty or is not a database of Boilerhouse: restore it from a backup, or"
            " move it away to start empty"
        )
    problems = [str(row[0]) for row in db.execute("PRAGMA quick_check(5)")]
    if problems != ["ok"]:
        raise StoreFailed(f"{path} is damaged: {'; '.join(problems)}")
    mode = str(db.execute("PRAGMA journal_mode=WAL").fetchone()[0])
    if mode != "wal":
        raise StoreFailed(f"{path} cannot use a write-ahead log here (journal mode {mode})")


class _Metadata(msgspec.Struct):
    resourceVersion: str  # noqa: N815 - the wire's name


class _Stamp(msgspec.Struct):
    metadata: _Metadata


_stamp_of = msgspec.json.Decoder(_Stamp).decode
