"""The data directory: made by us or shown to be ours, before anything is written into it.

nothing there ─► made, 0700     empty or ours, our user's, closed to others ─► taken as it is
anything else ─► refused, untouched

Ours is what the same user made, root or not: run by another, tenants' files would change hands
and be lost to the first.
Keys and tenants' files live in it, so others must not see into it. But a directory that was there
before us may be somebody's home: its mode is its owner's to change, and its content not ours to
join.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from boilerhouse.embedded.apiserver.storage.database import StoreFailed, database_file, wal_file
from boilerhouse.embedded.apiserver.storage.datalock import is_our_lock
from boilerhouse.platform.files.durable import sync_directory

# What a file system has at its root from birth.
_NOBODYS = {"lost+found"}


def take_directory(directory: Path) -> None:
    """Make the directory, or check that it may be used; `StoreFailed` says why it may not."""
    try:
        if not directory.exists():
            make_directory(directory)
            return
        if not directory.is_dir():
            raise StoreFailed(f"{directory} is not a directory")
        strange = sorted({entry.name for entry in directory.iterdir()} - _NOBODYS)
        found = directory.stat()
        maker = _maker(directory)
    except OSError as error:
        raise StoreFailed(f"{directory} cannot be used: {error}") from error
    if maker is not None and maker != os.geteuid():
        who = _user(maker)
        raise StoreFailed(
            f"{directory} is the data directory of another user, {who}, whose tenants' files"
            f" cannot change hands: run this as {who}, or choose another directory"
        )
    if strange and maker is None:
        raise StoreFailed(
            f"{directory} is neither empty nor a data directory of Boilerhouse (it has"
            f" {strange[0]}): choose another"
        )
    if found.st_uid != os.geteuid():
        # Its owner may exchange whatever is in it, keys too, however it is closed to others.
        raise StoreFailed(
            f"{directory} belongs to another user, {_user(found.st_uid)}, who could exchange the"
            f" keys and files in it: chown it to {_user(os.geteuid())}, or choose another directory"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise StoreFailed(
            f"{directory} is open to other users (mode {mode:o}), and keys are kept in it:"
            f" chmod 700 {directory}"
        )


def make_directory(directory: Path) -> None:
    """Make it and its parents, ours alone, in a way that survives a power loss."""
    if directory.is_dir():
        return
    make_directory(directory.absolute().parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    sync_directory(directory.absolute().parent)


def _maker(directory: Path) -> int | None:
    """Return the uid of who keeps a store there; None if nobody does."""
    database, lock = database_file(directory), directory / "lock"
    for file in (database, wal_file(database)):
        if file.is_file():
            return file.stat().st_uid
    return lock.stat().st_uid if is_our_lock(lock) else None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
