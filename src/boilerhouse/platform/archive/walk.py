"""Looking at everything in the overlays, in order, without following links.

    roots ─► treewalk.Walk ─► walk ─► (path, entry, descriptor, is it a directory?) … ─► pack

Runs in the worker. Of a path one copy is held for the current directory, however deep that is.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Iterator, Sequence

from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.header import LEVELS, shown
from boilerhouse.platform.files.descent import OPEN_DIRECTORY
from boilerhouse.platform.files.treewalk import BATCH, Entry, Walk

__all__ = ["BATCH", "GONE", "OPEN_DIRECTORY", "Found", "Root", "too_deep", "unreadable", "walk"]

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or exchanged for something else meanwhile

Root = tuple[bytes, int]  # path in the archive, without slashes at the ends; descriptor
# Path in the archive; the entry, None for a root; descriptor of the directory it is, or of the one
# it is in; whether it is a directory. Descriptors are open until the next is asked for.
Found = tuple[bytes, "Entry | None", int, bool]


def walk(roots: Sequence[Root]) -> Iterator[Found]:
    """Yield every entry, a directory before what is in it; what vanishes meanwhile is left out."""
    for path, root in roots:
        yield path, None, root, True
        yield from _below(path, root)


def _below(top: bytes, root: int) -> Iterator[Found]:
    def failing(_directory: int, name: str | None, error: OSError) -> None:
        if error.errno not in GONE:
            where = here if name is None else here + b"/" + os.fsencode(name)
            raise unreadable(where, error) from error

    here, at = top, 0  # the current directory, and how deep it is
    whole = bytearray(top)
    ends = array("L", [len(top)])  # of the path of each directory on the way to it
    for depth, entry, directory, is_directory in Walk(root, failing):
        if entry is None:
            continue
        if is_directory:
            del whole[ends[depth - 1] :], ends[depth:]
            whole += b"/" + os.fsencode(entry.name)
            ends.append(len(whole))
            here, at = bytes(whole), depth
            if depth > LEVELS:
                raise too_deep(here)
            yield here, entry, directory, True
            continue
        if depth != at:
            del whole[ends[depth] :], ends[depth + 1 :]
            here, at = bytes(whole), depth
        yield here + b"/" + os.fsencode(entry.name), entry, directory, False


def too_deep(path: bytes) -> Failed:
    """Say which directory lies too deep to be saved."""
    return Failed("too-deep", f"{shown(path)} lies more than {LEVELS} directories deep")


def unreadable(path: bytes, error: OSError) -> Failed:
    """Say which file cannot be saved, and why: nothing is ever left out in silence."""
    code = "unreadable" if error.errno in (errno.EACCES, errno.EPERM) else "io-error"
    return Failed(code, f"{shown(path)} cannot be read: {error.strerror}")
