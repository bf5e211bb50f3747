"""Directories that tenants filled: removed or counted whatever is in them, or handed over.

Depth and length of names do not matter (descent.py), and nothing here follows a link: what a
tenant wrote is not a way to anything else.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from boilerhouse.platform.files.counting import Count
from boilerhouse.platform.files.descent import OPEN_DIRECTORY
from boilerhouse.platform.files.removal import NotRemoved, remove_below
from boilerhouse.platform.files.treewalk import Walk


def remove_tree(path: Path, go_on: Callable[[], bool] | None = None) -> None:
    """Delete a directory and everything below, whatever their modes say; gone already is fine.

    What it lies in is not ours, and stays as it is: that may be /dev/shm. Raises `NotRemoved`,
    when everything else is gone, for what cannot be removed, and `Interrupted` where `go_on` says
    that it is enough for now.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
    with contextlib.suppress(FileNotFoundError):  # another may be removing the same tree
        with _opened(path, _unlocked) as top:
            remove_below(top, go_on)
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise NotRemoved(error, [str(path)], 0) from error


def keep(_path: Path) -> None:
    """Leave a file to us: an `own` that gives nothing away."""


def give_tree(path: Path, own: Callable[[Path], None]) -> None:
    """Hand a directory and everything below to a tenant."""
    if own is keep:
        return  # the snapshots of ten thousand tenants are not walked for nothing

    def failing(_directory: int, _name: str | None, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    own(path)
    with _opened(path) as top:
        for _, entry, directory, is_directory in Walk(top, failing):
            if entry is not None:
                # By a descriptor, since there is no limit to the length of its path.
                parent = Path(f"/proc/self/fd/{directory}", ".." if is_directory else "")
                own(parent / entry.name)


def used_bytes(path: Path) -> int:
    """Return how much disk a directory takes, as far as it can be looked into."""
    return used(path)[0]


def used(path: Path) -> tuple[int, int]:
    """Return the bytes and the inodes that a directory takes, as far as it can be looked into."""
    try:
        with _opened(path) as top:
            count = Count(top)
            count.advance()
            return count.used, count.inodes
    except OSError:
        return 0, 0  # gone, or not ours to look into


@contextlib.contextmanager
def _opened(path: Path, unlock: Callable[[Path], None] | None = None) -> Iterator[int]:
    try:
        top = os.open(path, OPEN_DIRECTORY)
    except PermissionError:
        if unlock is None:
            raise
        unlock(path)
        top = os.open(path, OPEN_DIRECTORY)
    try:
        yield top
    finally:
        os.close(top)


def _unlocked(path: Path) -> None:
    """Make a directory of ours usable; by a descriptor, so that no link is followed."""
    held = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.chmod(f"/proc/self/fd/{held}", 0o700)  # noqa: PTH101
    finally:
        os.close(held)
