"""A life of a snapshot store under the recorder, as it is or with one deliberate mistake.

python -m tests.faults.powerloss.snapshot_program DIRECTORY SEED [MISTAKE]

Before each verb it marks what it is about to do, after it what the store has acknowledged; now and
then it is killed in the middle, and what the next store shows is marked as well.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from boilerhouse.core.clock import FakeClock
from boilerhouse.node.helper.store import shelves, volume
from boilerhouse.node.helper.store.manifest import Shelf, Stored
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.store import Store
from tests.faults.powerloss.recorder import mark

STEPS = 25
KEEP = 2
PLACES = [Place("anna", "shop"), Place("anna", "lab"), Place("ben", "shop")]


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def unsynced(owner: object, name: str) -> Iterator[None]:
    """Leave out what a sync does, for a while."""
    real = getattr(owner, name)
    setattr(owner, name, lambda *args: None)
    try:
        yield
    finally:
        setattr(owner, name, real)


def without(owner: type, method: str, sync: tuple[object, str]) -> None:
    """Make a method do all it does, but for the syncs."""
    real = getattr(owner, method)

    def careless(*args: Any, **kwargs: Any) -> Any:
        with unsynced(*sync):
            return real(*args, **kwargs)

    setattr(owner, method, careless)


def never_sync_archives() -> None:
    """Rename before the bytes are safe."""
    without(volume.Incoming, "settle", (os, "fsync"))


def never_sync_directories() -> None:
    """Acknowledge before the names are safe."""
    without(Store, "save", (volume.Volume, "sync"))


def trust_what_is_there() -> None:
    """Tell what an earlier helper left in memory, without making it safe."""
    without(shelves.Shelves, "load", (volume.Volume, "sync"))


def commit_before_the_version_is_safe() -> None:
    """Make current what may be gone as a version after a loss of power."""
    without(shelves.Shelves, "place", (volume.Volume, "sync"))


def drop_before_the_commit() -> None:
    """Make room first: the old version goes before the new one is current."""
    point = shelves.Shelves.point

    def greedy(self: shelves.Shelves, where: Place, stored: Stored, shelf: Shelf) -> Shelf:
        if shelf.current is not None:
            tenant = self._volume.descend(self._volume.root, where.tenant)
            with tenant as directory:
                os.unlink(f"{where.workload}.tar.gz", dir_fd=directory)
                self._volume.sync(directory)
        return point(self, where, stored, shelf)

    shelves.Shelves.point = greedy  # type: ignore[method-assign] # the mistake under test


def write_in_place() -> None:
    """Overwrite the file people know instead of renaming a link onto it."""

    def copied(self: shelves.Shelves, where: Place, stored: Stored, shelf: Shelf) -> Shelf:
        with self._volume.made(self._volume.root, where.tenant) as tenant:
            source = self.open(where, stored)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            target = os.open(f"{where.workload}.tar.gz", flags, 0o600, dir_fd=tenant)
            os.write(target, os.read(source, 1 << 20))
            os.fsync(target)
            os.close(target)
            os.close(source)
            self._volume.sync(tenant)
        return Shelf(shelf.versions, stored)

    shelves.Shelves.point = copied  # type: ignore[method-assign] # as above


MISTAKES: dict[str, Callable[[], None]] = {
    mistake.__name__: mistake
    for mistake in (
        never_sync_archives,
        never_sync_directories,
        trust_what_is_there,
        commit_before_the_version_is_safe,
        drop_before_the_commit,
        write_in_place,
    )
}


class Life:
    """One store after another on one directory, and random verbs on it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._rng = random.Random(seed)
        self._store = Store.open(directory, FakeClock())
        self._bases: dict[Place, str] = {}

    def live(self) -> None:
        for number in range(STEPS):
            where = self._rng.choice(PLACES)
            verb = self._rng.choice([self.save] * 6 + [self.put, self.promote, self.delete])
            kills = self._rng.random() < 0.25
            shelf = self._store.shelf(where)
            _say("seen", where, shelf)
            try:
                self._in_danger(kills, partial(verb, where, shelf, number))
            except Killed:
                self._store.close()
                self._store = Store.open(self._directory, FakeClock())
            _say("seen", where, self._store.shelf(where))
        self._store.close()

    def save(self, where: Place, shelf: Shelf, number: int) -> None:
        current = "" if shelf.current is None else shelf.current.digest
        base = current if self._rng.random() < 0.8 else ""
        incoming = self._incoming(where, number)
        try:
            self._store.save(
                where, incoming, entries=1, content=1, base=base, pod=f"{number}", keep=KEEP
            )
        finally:
            incoming.discard()

    def put(self, where: Place, shelf: Shelf, number: int) -> None:
        incoming = self._incoming(where, number)
        try:
            self._store.put(
                where, incoming, entries=1, content=1, expect=None, keep=KEEP, held=None
            )
        finally:
            incoming.discard()

    def promote(self, where: Place, shelf: Shelf, number: int) -> None:
        if shelf.versions:
            chosen = self._rng.choice(shelf.versions)
            _say("begin", where, None, digest=chosen.digest)
            self._store.promote(where, chosen.seq, KEEP)

    def delete(self, where: Place, shelf: Shelf, number: int) -> None:
        if shelf.versions:
            _say("begin", where, None, digest="", deletes=True)
            self._store.delete(where, None)

    def _incoming(self, where: Place, number: int) -> volume.Incoming:
        incoming = self._store.incoming()
        incoming.write(b"%d:" % number, self._rng.randbytes(self._rng.randint(1, 3000)))
        _say("begin", where, None, digest=incoming.digest)
        incoming.settle()
        return incoming

    def _in_danger(self, kills: bool, verb: Callable[[], None]) -> None:
        """Run a verb; with `kills`, the process dies right after one of its renames."""
        left = self._rng.randint(1, 3) if kills else 1 << 30
        real = os.rename

        def rename(*args: Any, **kwargs: Any) -> None:
            nonlocal left
            real(*args, **kwargs)
            left -= 1
            if left == 0:
                raise Killed

        os.rename = rename
        try:
            verb()
        finally:
            os.rename = real


def _say(event: str, where: Place, shelf: Shelf | None, **more: object) -> None:
    line: dict[str, object] = {"event": event, "where": where, **more}
    if shelf is not None:
        line["current"] = "" if shelf.current is None else shelf.current.digest
        line["versions"] = [one.stem for one in shelf.versions]
        line["sides"] = [one.stem for one in shelf.versions if one.manifest.kind == "side"]
    mark(json.dumps(line))


def main(directory: str, seed: str, mistake: str = "") -> None:
    if mistake:
        MISTAKES[mistake]()
    Path(directory).mkdir()
    Life(Path(directory), int(seed)).live()


if __name__ == "__main__":
    main(*sys.argv[1:])
