"""Finding a path inside the overlay directories without being led astray.

"/workspace/a/b" ─► overlay /workspace ─► directory fd ─► a ─► fd of a, and the name b

The tenant owns everything below and may be hostile: while we look, directories become symbolic
links, files become FIFOs. So nothing is ever opened by a path of more than one component: each is
opened relative to its parent's descriptor, without following links. What a descriptor refers to
cannot be exchanged, and the overlay is a mount of its own, so it cannot be moved out either.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from boilerhouse.platform.rpc.refusal import Refused

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# NONBLOCK: opening a FIFO must not wait for a writer that never comes.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Overlays:
    """The overlay directories: where the instance has them, and where they are for us."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self._directories = {PurePosixPath(path): where for path, where in directories.items()}

    def roots(self) -> list[str]:
        """Return the paths of the overlay directories in the instance."""
        return [str(path) for path in self._directories]

    @contextmanager
    def directory(self, path: str, make: Callable[[int, str], None] | None = None) -> Iterator[int]:
        """Open a directory at or below an overlay; `make(parent, name)` creates what is missing."""
        root, parts = self._locate(path)
        current = os.open(root, DIRECTORY)
        try:
            for part in parts:
                below = _step(current, part, path, make)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)

    @contextmanager
    def parent(
        self, path: str, make: Callable[[int, str], None] | None = None
    ) -> Iterator[tuple[int, str]]:
        """Open the directory that holds `path`; yields it and the last component."""
        _, parts = self._locate(path)
        if not parts:
            raise Refused(409, "overlay-itself", f"{path} is an overlay directory itself")
        with self.directory(str(PurePosixPath(path).parent), make) as opened:
            yield opened, parts[-1]

    def _locate(self, path: str) -> tuple[Path, tuple[str, ...]]:
        if not path.startswith("/") or "\x00" in path or ".." in path.split("/"):
            raise Refused(400, "bad-path", "a path is absolute and has no .. in it")
        wanted = PurePosixPath(path)
        for overlay, where in self._directories.items():
            if wanted.is_relative_to(overlay):
                return where, wanted.relative_to(overlay).parts
        have = ", ".join(self.roots()) or "none"
        raise Refused(404, "outside", f"{path!a} is in no overlay directory; there are: {have}")


def _step(parent: int, name: str, path: str, make: Callable[[int, str], None] | None) -> int:
    try:
        return os.open(name, DIRECTORY, dir_fd=parent)
    except FileNotFoundError as error:
        if make is None:
            raise refused(error, path) from None
    except OSError as error:
        raise refused(error, path) from None
    try:
        make(parent, name)
        return os.open(name, DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise refused(error, path) from None


def refused(error: OSError, path: str) -> Refused:
    """Put what the file system said into an answer; what is no answer is raised as it is."""
    known = {
        errno.ENOENT: (404, "not-found", "is not there"),
        errno.ENOTDIR: (409, "not-a-directory", "leads through what is not a directory"),
        errno.ELOOP: (409, "symlink", "is or leads through a symbolic link, which is not followed"),
        errno.EISDIR: (409, "is-a-directory", "is a directory"),
        errno.ENOTEMPTY: (409, "not-empty", "is a directory with something in it"),
        errno.ENAMETOOLONG: (400, "bad-path", "has a name that is too long"),
        errno.EACCES: (403, "forbidden", "cannot be reached by the agent"),
        errno.EPERM: (403, "forbidden", "cannot be changed by the agent"),
        errno.ENOSPC: (507, "disk-full", "cannot be written: the disk is full"),
        errno.EDQUOT: (507, "disk-full", "cannot be written: the quota is used up"),
        errno.ENXIO: (409, "not-a-file", "is not a regular file"),
    }
    if error.errno not in known:
        raise error
    status, code, words = known[error.errno]
    return Refused(status, code, f"{path!a} {words}")


def kind(mode: int) -> str:
    """Return the word for a file's type."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"
