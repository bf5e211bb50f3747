"""The /etc of image `host`: copies of a listed part of the machine's, and nothing else.

    /etc ─► write() once per start ─► DIR/host-etc ─► bound read-only into every `host` container

Copies rather than a mount for each file: mounts are what makes a container slow to start. What
changes on the machine later (a new certificate) is seen after the next start of Boilerhouse.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# How to find libraries, which of several programs a name means, whom to trust, what time it is.
_COPIED = (
    "alternatives",
    "ca-certificates.conf",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
# Written for each container and bound over these.
OVERLAID = ("hosts", "resolv.conf", "hostname", "passwd", "group")
_NAMES = "passwd: files\ngroup: files\nhosts: files dns\n"


def write(directory: Path, machine: Path = Path("/etc")) -> None:
    """Make `directory` the /etc of image `host`, readable by everybody."""
    fresh = directory.with_name(directory.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o755, parents=True)
    for name in _COPIED:
        source, target = machine / name, fresh / name
        if not os.path.lexists(source):
            continue
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target, symlinks=True, ignore=_unreadable)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    for name in OVERLAID:
        (fresh / name).touch()
    (fresh / "nsswitch.conf").write_text(_NAMES)
    (fresh / "mtab").symlink_to("/proc/self/mounts")
    shutil.rmtree(directory, ignore_errors=True)
    fresh.rename(directory)


def _unreadable(directory: str, names: list[str]) -> list[str]:
    """Leave out what not everybody on the machine may read: it is no tenant's business either."""
    refused = []
    for name in names:
        status = Path(directory, name).lstat()
        if not status.st_mode & 0o004:
            refused.append(name)
    return refused
