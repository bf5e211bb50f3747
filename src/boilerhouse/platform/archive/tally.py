"""The fingerprint of overlays: what they are at this moment, in sixteen bytes.

    roots ─► Tally, directory by directory ─► digest, entries, bytes
                └► another one, of half of what is left, in a second process ─► added up

A release of unchanged files is little else than this: so it is not made of `walk`, which costs more
for each entry than the kernel does, and two processes look at a large tree. Digests are added up,
so it does not matter who met which directory, and when.
"""

from __future__ import annotations

import marshal
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice

from boilerhouse.platform.archive import confine
from boilerhouse.platform.archive.failures import DEEPER, Failed, writer_process_died
from boilerhouse.platform.archive.header import LEVELS, shown
from boilerhouse.platform.archive.walk import (
    BATCH,
    GONE,
    OPEN_DIRECTORY,
    Root,
    too_deep,
    unreadable,
)
from boilerhouse.platform.files.descent import STAY_OPEN
from boilerhouse.platform.files.treewalk import Walk

DEEP = 512  # directories in one another: below more, Landlock makes each opening slow
_MANY = 2_000  # entries until a second process is worth its fork
_SHARED = 16  # directories that have to be left for both
_MOST = 10_000  # of one directory's that are shared: they are kept in memory
_SAID = 4096
_NEVER = 1 << 62

_facts = struct.Struct("=QqIIIQQQ").pack
_WORD = (1 << 64) - 1  # a file may be dated after 2262, which is more nanoseconds than fit
_MASK = (1 << 128) - 1

# A directory on the way to where we are: path, descriptor, names of directories in it still to go.
_Level = tuple[bytes, int, Iterator[str]]


def fingerprint(roots: Sequence[Root], deepest: int = LEVELS) -> tuple[str, int, int]:
    """Return digest, number of entries and bytes in files.

    What lies below more than `deepest` directories ends it: `Failed` with the code DEEPER.
    """
    tally = _Tally(deepest)
    for path, root in roots:
        tally.add(path, root)
    tally.join()
    return f"{tally.total & _MASK:032x}", tally.entries, tally.size


class _Tally:
    """What was seen so far. `shared`: not by one process alone."""

    def __init__(self, deepest: int, shared: bool = False) -> None:
        self._deepest = deepest
        self.total = self.entries = self.size = 0
        self._share_at = _NEVER if shared else _MANY
        self._other: _Other | None = None

    def add(self, path: bytes, root: int) -> None:
        """Look at a directory and everything below it."""
        self.walk([(path, root, self._directory(path, root))])

    def walk(self, levels: list[_Level]) -> None:
        """Look at everything that is still to be entered."""
        try:
            while levels:
                if self.entries >= self._share_at:
                    self._share(levels)
                self._step(levels)
        finally:
            for _, directory, _ in levels[1:]:
                os.close(directory)

    def join(self) -> None:
        """Add what the other process has seen."""
        if self._other is not None:
            total, entries, size = self._other.result()
            self.total += total
            self.entries += entries
            self.size += size

    def _step(self, levels: list[_Level]) -> None:
        """Enter the next directory, or leave one."""
        above, directory, names = levels[-1]
        name = next(names, None)
        if name is None:
            levels.pop()
            if levels:
                os.close(directory)
            return
        path = above + b"/" + os.fsencode(name)
        try:
            below = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
        except OSError as error:
            if error.errno in GONE:
                return
            raise unreadable(path, error) from error
        if len(levels) >= STAY_OPEN:
            try:
                self._deep(path, below)
            finally:
                os.close(below)
            return
        levels.append((path, below, self._directory(path, below)))

    def _deep(self, top: bytes, root: int) -> None:
        """Look at a directory that lies deep, and everything below it, with few descriptors.

        What a directory counts as there is made of its name and of what the one above counts as: a
        path of its own for each would take more time than there is.
        """

        def failing(_directory: int, name: str | None, error: OSError) -> None:
            if error.errno not in GONE:
                where = "/".join(walk.names if name is None else [*walk.names, name])
                raise unreadable(top + b"/" + os.fsencode(where), error) from error

        walk = Walk(root, failing)
        keys = [top]
        for depth, entry, directory, is_directory in walk:
            if entry is None:
                self._count(top, [_of(b"", os.fstat(directory))])
                continue
            name = os.fsencode(entry.name)
            if is_directory:
                if STAY_OPEN + depth > LEVELS:
                    raise too_deep(top + b"/" + os.fsencode("/".join(walk.names)))
                if STAY_OPEN + depth > self._deepest:
                    raise Failed(DEEPER, f"there is more below {shown(top)} than was expected")
                keys[depth:] = [blake2b(keys[depth - 1] + b"\0" + name, digest_size=16).digest()]
                self._count(keys[depth], [_of(b"", os.fstat(directory))])
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError as error:
                failing(directory, entry.name, error)
                continue
            self._count(keys[depth], [_of(name, found)])
            if found.st_mode & 0o170000 == 0o100000:
                self.size += found.st_size

    def _share(self, levels: list[_Level]) -> None:
        """Leave every second directory that is still to be entered to another process."""
        self._share_at = self.entries + _MANY
        left = [list(islice(names, _MOST)) for _, _, names in levels]
        if sum(map(len, left)) >= _SHARED:
            theirs = [
                (path, directory, iter(names[1::2]))
                for (path, directory, _), names in zip(levels, left, strict=True)
            ]
            with suppress(OSError):  # no more processes here: it takes longer then
                self._other = _Other(theirs, self._deepest)
                self._share_at = _NEVER
                left = [names[::2] for names in left]
        levels[:] = [
            (path, directory, chain(names, more))
            for (path, directory, more), names in zip(levels, left, strict=True)
        ]

    def _directory(self, path: bytes, directory: int) -> Iterator[str]:
        """Count a directory and what is in it; yield the names of those that are directories."""
        try:
            self._count(path, [_of(b"", os.fstat(directory))])
            with os.scandir(directory) as found:
                while batch := list(islice(found, BATCH)):
                    facts, below = self._look(batch)
                    if len(batch) < BATCH:
                        self._count(path, facts)
                    else:  # which of them are a batch is the file system's choice
                        for one in facts:
                            self._count(path, [one])
                    yield from below
        except OSError as error:
            raise unreadable(path, error) from error

    def _look(self, batch: list[os.DirEntry[str]]) -> tuple[list[bytes], list[str]]:
        facts, below = [], []
        for entry in batch:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError as error:
                if error.errno in GONE:
                    continue
                raise
            facts.append(_of(entry.name.encode("utf-8", "surrogateescape"), found))
            if found.st_mode & 0o170000 == 0o100000:
                self.size += found.st_size
        return facts, below

    def _count(self, path: bytes, facts: list[bytes]) -> None:
        self.entries += len(facts)
        facts.sort()
        digest = blake2b(path + b"\0", digest_size=16)
        digest.update(b"".join(facts))
        self.total += int.from_bytes(digest.digest(), "big")


class _Other:
    """Another process that looks at a part of the tree, with all that this one may and no more."""

    def __init__(self, levels: list[_Level], deepest: int) -> None:
        first = os.getpid()
        self._told, telling = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._told)
            os.close(telling)
            raise
        if not self._pid:
            try:
                confine.die_with_parent(first)
                os.write(telling, marshal.dumps(_looked(levels, deepest)))
            finally:
                os._exit(0)
        os.close(telling)

    def result(self) -> tuple[int, int, int]:
        """Wait for it; return its sum of digests, entries and bytes, or raise what it raised."""
        said = b""
        while piece := os.read(self._told, _SAID):
            said += piece
        os.close(self._told)
        os.waitpid(self._pid, 0)
        if not said:
            raise writer_process_died()
        total, entries, size, *failure = marshal.loads(said)  # noqa: S302  our own fork wrote it
        if failure:
            raise Failed(*failure)
        return total, entries, size


def _looked(levels: list[_Level], deepest: int) -> tuple[int | str, ...]:
    tally = _Tally(deepest, shared=True)
    try:
        tally.walk(levels)
    except Failed as failed:
        return 0, 0, 0, failed.code, failed.message
    return tally.total, tally.entries, tally.size


def _of(name: bytes, found: os.stat_result) -> bytes:
    return (
        _facts(
            found.st_ino, found.st_size, found.st_mode, found.st_uid, found.st_gid,
            found.st_mtime_ns & _WORD, found.st_ctime_ns & _WORD, found.st_dev,
        )
        + name
        + b"/"
    )  # fmt: skip
