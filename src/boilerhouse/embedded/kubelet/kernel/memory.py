"""Directories in memory: for Secrets, and for volumes that asked for it.

    /dev/shm/boilerhouse-<uid>-<hash of the data directory>/  of ─► the data directory
                                                              <pod uid>/<volume>/

An ordinary user cannot mount a file system of its own, so we use the one every Linux has, under a
directory that only we can enter, named after the data directory so that a successor finds it. Whose
data directory is gone has no successor: the next one to open removes what it left.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import structlog

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.kernel.trees import remove_tree

_PLACE = Path("/dev/shm")  # noqa: S108  checked below: ours, and nobody else's
_OF = "of"  # a link to the data directory; no Pod has this uid

log = structlog.get_logger(__name__)


class Memory:
    """The memory of all Pods of one data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def open(cls, data: Path, place: Path = _PLACE) -> Memory:
        """Find or make our directory; `SandboxError` if it cannot be ours alone."""
        data = data.resolve()
        prefix = f"boilerhouse-{os.getuid()}-"
        root = place / (prefix + hashlib.sha256(os.fsencode(data)).hexdigest()[:12])
        for other in place.glob(prefix + "*"):
            if _orphaned(other):
                try:
                    remove_tree(other)
                except OSError as error:  # of a neighbour: no reason for us not to start
                    log.warning("memory.not_removed", path=str(other), error=str(error))
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
        if not (root / _OF).is_symlink():
            (root / _OF).symlink_to(data)
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
        return [entry.name for entry in self._root.iterdir() if entry.name != _OF]

    def remove(self, uid: str, volume: str = "", go_on: Callable[[], bool] | None = None) -> None:
        """Remove what a Pod has here, or one volume of it and what that leaves empty."""
        remove_tree(self.path(uid) / volume, go_on)
        if volume and self.path(uid).exists() and not any(self.path(uid).iterdir()):
            self.path(uid).rmdir()

    def close(self) -> None:
        """Take the directory away if no Pod has anything in it."""
        if not self.pods():
            with contextlib.suppress(OSError):  # the next one to open finds it
                remove_tree(self._root)


def _orphaned(root: Path) -> bool:
    """Tell whether a directory is ours, and of a data directory that is not there any more."""
    try:
        found = root.lstat()
        of = (root / _OF).readlink()
    except OSError:
        return False  # no directory of this kind, or just being removed by another
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not of.exists()
