"""Directories that tenants filled: taken away whatever is in them, or handed to another tenant.

Nothing here follows a link: what a tenant wrote is not a way to anything else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Delete a directory and everything below, whatever their modes say; gone already is fine.

    What it lies in is not ours, and stays as it is: that may be /dev/shm.
    """

    def open_up(operation: Callable[..., object], name: str, info: object) -> None:
        """Enter or empty a directory that its owner has closed, then go on as before.

        Somebody else may be removing the same tree: what is gone meanwhile needs nothing more.
        """
        del info
        with contextlib.suppress(FileNotFoundError):
            # Not by Path: rmtree hands over names, and they go back to it as they are.
            within = () if Path(name) == path else (os.path.dirname(name),)  # noqa: PTH120
            for closed in (*within, name):
                if not os.path.islink(closed) and os.path.isdir(closed):  # noqa: PTH112, PTH114
                    os.chmod(closed, 0o700)  # noqa: PTH101
            if operation in (os.unlink, os.rmdir):
                operation(name)
            elif os.path.lexists(name):
                shutil.rmtree(name)

    if os.path.lexists(path):
        shutil.rmtree(path, onerror=open_up)


def keep(_path: Path) -> None:
    """Leave a file to us: an `own` that gives nothing away."""


def give_tree(path: Path, own: Callable[[Path], None]) -> None:
    """Hand a directory and everything below to a tenant."""
    if own is keep:
        return  # the snapshots of ten thousand tenants are not walked for nothing
    own(path)
    for root, directories, files in os.walk(path, followlinks=False):
        for name in (*directories, *files):
            own(Path(root, name))


def used_bytes(path: Path) -> int:
    """Return how much disk a directory takes, as far as it can be looked into."""
    total = 0
    for root, directories, files in os.walk(path, followlinks=False):
        for name in (*directories, *files):
            try:
                found = os.lstat(os.path.join(root, name))  # noqa: PTH118  many, and maybe bytes
            except OSError:
                continue  # gone meanwhile
            if not stat.S_ISLNK(found.st_mode):
                total += found.st_blocks * 512
    return total
