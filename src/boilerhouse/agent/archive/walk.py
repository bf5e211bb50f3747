"""Looking at everything in the overlays, in order, without following links.

    roots ─► walk ─► Found(path, directory it is in, entry) … ─► pack

Runs in the worker. Directories are held by descriptors, one or two per level; of a directory's
names only a batch is kept, so memory does not grow with the tree.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from boilerhouse.agent.archive.failures import Failed
from boilerhouse.agent.archive.header import shown

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or exchanged for something else meanwhile
BATCH = 20_000  # names of one directory that are sorted at once

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
            while batch := sorted(islice(found, BATCH), key=attrgetter("name"), reverse=True):
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
