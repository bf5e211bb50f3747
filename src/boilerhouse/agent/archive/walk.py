"""Looking at everything in the overlays, in order, without following links.

    roots ─► walk ─► Found(path, directory it is in, entry) … ─► pack
          └► fingerprint

Runs in the worker. Directories are held by descriptors, one or two per level; of a directory's
names only a batch is kept, so memory does not grow with the tree.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from operator import attrgetter

from boilerhouse.agent.archive.failures import Failed
from boilerhouse.agent.archive.header import shown

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or exchanged for something else meanwhile
_BATCH = 20_000  # names of one directory that are sorted at once

Root = tuple[bytes, int]  # path in the archive, without slashes at the ends; descriptor
# Path in the archive; the entry, None for a root; descriptor of the directory it is, or of the one
# it is in; whether it is a directory. Descriptors are open until the next is asked for.
Found = tuple[bytes, "os.DirEntry[str] | None", int, bool]


def walk(roots: Sequence[Root]) -> Iterator[Found]:
    """Yield every entry, a directory before what is in it; what vanishes meanwhile is left out."""
    for path, root in roots:
        yield path, None, root, True
        yield from _below(path, root)


def _below(top: bytes, root: int) -> Iterator[Found]:
    levels: list[tuple[bytes, int, Iterator[os.DirEntry[str]]]] = [(top, root, _entries(top, root))]
    try:
        while levels:
            above, directory, entries = levels[-1]
            entry = next(entries, None)
            if entry is None:
                levels.pop()
                if levels:
                    os.close(directory)
                continue
            path = above + b"/" + os.fsencode(entry.name)
            if not entry.is_dir(follow_symlinks=False):
                yield path, entry, directory, False
                continue
            try:
                below = os.open(entry.name, OPEN_DIRECTORY, dir_fd=directory)
            except OSError as error:
                if error.errno in GONE:
                    continue
                raise unreadable(path, error) from error
            levels.append((path, below, _entries(path, below)))
            yield path, entry, below, True
    finally:
        for _, directory, _ in levels[1:]:
            os.close(directory)


def _entries(path: bytes, directory: int) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            while batch := sorted(islice(found, _BATCH), key=attrgetter("name"), reverse=True):
                while batch:
                    yield batch.pop()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: bytes, error: OSError) -> Failed:
    """Say which file cannot be saved, and why: nothing is ever left out in silence."""
    if error.errno == errno.EMFILE:
        return Failed("too-deep", f"{shown(path)} lies deeper than files may be open at once")
    code = "unreadable" if error.errno in (errno.EACCES, errno.EPERM) else "io-error"
    return Failed(code, f"{shown(path)} cannot be read: {error.strerror}")


_facts = struct.Struct("=QqIIIQQQ").pack
_WORD = (1 << 64) - 1  # a file may be dated after 2262, which is more nanoseconds than fit
_MASK = (1 << 128) - 1


def fingerprint(roots: Sequence[Root]) -> tuple[str, int, int]:
    """Return digest, number of entries and bytes in files.

    A release of unchanged files is little else than this: so it is not made of `walk`, which costs
    more for each entry than the kernel does.
    """
    tally = _Tally()
    for path, root in roots:
        tally.add(path, root)
    return f"{tally.total & _MASK:032x}", tally.entries, tally.size


class _Tally:
    """Digests are added up: in which order directories are met does not matter."""

    def __init__(self) -> None:
        self.total = self.entries = self.size = 0

    def add(self, path: bytes, root: int) -> None:
        """Look at a directory and everything below it."""
        levels = [(path, root, self._directory(path, root))]
        try:
            while levels:
                above, directory, names = levels[-1]
                name = next(names, None)
                if name is None:
                    levels.pop()
                    if levels:
                        os.close(directory)
                    continue
                path = above + b"/" + os.fsencode(name)
                try:
                    below = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
                except OSError as error:
                    if error.errno in GONE:
                        continue
                    raise unreadable(path, error) from error
                levels.append((path, below, self._directory(path, below)))
        finally:
            for _, directory, _ in levels[1:]:
                os.close(directory)

    def _directory(self, path: bytes, directory: int) -> Iterator[str]:
        """Count a directory and what is in it; yield the names of those that are directories."""
        try:
            self._count(path, [_of(b"", os.fstat(directory))])
            with os.scandir(directory) as found:
                while batch := list(islice(found, _BATCH)):
                    facts, below = self._look(batch)
                    if len(batch) < _BATCH:
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


def _of(name: bytes, found: os.stat_result) -> bytes:
    return (
        _facts(
            found.st_ino, found.st_size, found.st_mode, found.st_uid, found.st_gid,
            found.st_mtime_ns & _WORD, found.st_ctime_ns & _WORD, found.st_dev,
        )
        + name
        + b"/"
    )  # fmt: skip
