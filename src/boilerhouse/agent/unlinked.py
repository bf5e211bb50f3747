"""Files that processes have open and that have no name any more: they take room all the same.

/proc/<pid>/fd ─► st_nlink 0, on the file system in question ─► bytes, each inode once

Whoever may not look into a process sees none of its files: a sidecar of a cluster would need the
capability SYS_PTRACE for it, and does without (docs/snapshots.md).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable


def unlinked(pids: Iterable[int], devices: set[int]) -> dict[tuple[int, int], int]:
    """Return device and inode of each such file, and the bytes that it takes. Blocks."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look into
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208  many, and only their names
                with contextlib.suppress(OSError):  # closed meanwhile
                    file = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116  the same
                    if file.st_nlink == 0 and file.st_dev in devices and _has_blocks(file.st_mode):
                        found[file.st_dev, file.st_ino] = file.st_blocks * 512
    return found


def _has_blocks(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
