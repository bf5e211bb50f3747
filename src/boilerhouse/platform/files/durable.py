"""Small files that must be whole or absent: keys, tokens, the kubeconfig.

bytes ──► NAME.tmp (fsync) ──► rename onto NAME ──► fsync of the directory

The rename is the only commit. The store's database has its own way (storage/store.py).
"""

from __future__ import annotations

import os
from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """Replace a file so that a crash leaves the old one or the new one, private from birth.

    One writer per path is assumed: the data directory is locked by its `up`.
    """
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    # O_EXCL after the unlink: never write through somebody else's link.
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # whatever the umask took away
        file.write(data)
        file.flush()
        os.fsync(fd)
    temporary.replace(path)
    sync_directory(path.parent)


def private_directory(path: Path) -> None:
    """Make a directory that only its owner can enter, or tighten one that is there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def sync_directory(path: Path) -> None:
    """Make renames in a directory survive a power loss."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
