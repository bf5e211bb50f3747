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
    for needed in {Path(sys.base_prefix), Path(sys.prefix), Path.cwd()}:
        _open_up(needed)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execvp(command[0], command)


def _open_up(path: Path) -> None:
    closed = [parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001]
    if closed:
        kept = os.open(path, os.O_PATH | os.O_DIRECTORY)
        linux.mount("tmpfs", str(closed[0]), "tmpfs", 0, "mode=0755")
        path.mkdir(parents=True)
        linux.mount(f"/proc/self/fd/{kept}", str(path), "", linux.MS_BIND | linux.MS_REC)
        os.close(kept)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
