"""Directories in memory: for Secrets, and for volumes that asked for it.

An ordinary user cannot mount a file system of its own, so we use the one every Linux has, under a
directory that only we can enter, named after the data directory so that a successor finds it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.trees import remove_tree

_PLACE = Path("/dev/shm")  # noqa: S108  checked below: ours, and nobody else's


class Memory:
    """The memory of all Pods of one data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def open(cls, data: Path, place: Path = _PLACE) -> Memory:
        """Find or make our directory; `SandboxError` if it cannot be ours alone."""
        name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:12]
        root = place / f"boilerhouse-{os.getuid()}-{name}"
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise SandboxError(
                f"{place} is needed for volumes in memory and cannot be used: {error.strerror}"
            ) from error
        found = root.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise SandboxError(f"{root} is not ours: remove it")
        root.chmod(0o700)
        return cls(root)

    def path(self, uid: str) -> Path:
        """Return where a Pod's directory is, if it has one."""
        return self._root / uid

    def directory(self, uid: str) -> Path:
        """Return a Pod's own directory."""
        path = self.path(uid)
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def pods(self) -> list[str]:
        return [entry.name for entry in self._root.iterdir()]

    def remove(self, uid: str) -> None:
        remove_tree(self._root / uid)

    def close(self) -> None:
        """Take the directory away if no Pod has anything in it."""
        if not any(self._root.iterdir()):
            self._root.rmdir()
