"""Files that processes have open or mapped and that have no name any more: they take room still.

/proc/<pid>/fd, /proc/<pid>/map_files ─► st_nlink 0, on the file system in question ─► bytes

Whoever may not look into a process sees none of its files: a sidecar of a cluster would need the
capability SYS_PTRACE for it, and does without. What is mapped and not open only root can look at
(docs/snapshots.md).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

_DELETED = b" (deleted)\n"  # how proc(5) marks a mapping of a file that has no name


def unlinked(
    pids: Iterable[int], devices: set[int], *, with_roots: bool = False
) -> dict[tuple[int, int], int]:
    """Return device and inode of each such file, and the bytes that it takes. Blocks.

    `with_roots`: also on the root file system of each process, which is an image's own layer.
    """
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        on = set(devices)
        if with_roots:
            with contextlib.suppress(OSError):
                on.add(os.stat(f"/proc/{pid}/root").st_dev)  # noqa: PTH116  one of thousands
        for path in (*_open(pid), *_mapped(pid)):
            with contextlib.suppress(OSError):  # closed meanwhile, or not ours to look at
                file = os.stat(path)  # noqa: PTH116  the same
                if file.st_nlink == 0 and file.st_dev in on and _has_blocks(file.st_mode):
                    found[file.st_dev, file.st_ino] = file.st_blocks * 512
    return found


def _open(pid: int) -> list[str]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  many, and only their names
    except OSError:  # it has ended, or is not ours to look into
        return []
    return [f"/proc/{pid}/fd/{name}" for name in names]


def _mapped(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:  # noqa: PTH123
        for line in maps:
            if line.endswith(_DELETED):
                # Without the leading zeros that `maps` may have and the names here do not.
                first, _, last = line.split(None, 1)[0].partition(b"-")
                yield f"/proc/{pid}/map_files/{int(first, 16):x}-{int(last, 16):x}"


def _has_blocks(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
