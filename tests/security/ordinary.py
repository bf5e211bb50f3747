"""Runs a command as an ordinary user, from root: `python -m tests.security.ordinary UID COMMAND …`.

The interpreter may lie where only root may go. In a mount namespace of its own, which nobody else
sees, the closed directories above it are replaced by open ones that hold nothing else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from boilerhouse.embedded.kubelet.kernel import linux


def main(uid: int, command: list[str]) -> None:
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("", "/", "", linux.MS_SLAVE | linux.MS_REC)
    _open_up({Path(sys.base_prefix), Path(sys.prefix), Path.cwd()})
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execvp(command[0], command)


def _open_up(paths: set[Path]) -> None:
    # All of them before anything is covered: one may lie in, or beside, another.
    hidden = [(path, _closed(path), os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in paths]
    covered: set[Path] = set()
    for path, closed, kept in sorted(hidden):
        if closed is not None:
            if closed not in covered:
                linux.mount("tmpfs", str(closed), "tmpfs", 0, "mode=0755")
                covered.add(closed)
            path.mkdir(parents=True, exist_ok=True)
            linux.mount(f"/proc/self/fd/{kept}", str(path), "", linux.MS_BIND | linux.MS_REC)
        os.close(kept)


def _closed(path: Path) -> Path | None:
    """Return the outermost directory above that an ordinary user may not pass."""
    above = reversed(path.parents)
    return next((parent for parent in above if not parent.stat().st_mode & 0o001), None)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
