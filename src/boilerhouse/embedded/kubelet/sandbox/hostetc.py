"""The /etc of image `host`: copies of a listed part of the machine's, and nothing else.

    /etc ─► write() at a start, if it changed ─► DIR/host-etc ─► read-only in `host` containers

Copies rather than a mount for each file: mounts are what makes a container slow to start. What
changes on the machine later (a new certificate) is seen after the next start of Boilerhouse.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
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
    """Make `directory` the /etc of image `host`, readable by everybody.

    Some seven hundred files take longer to copy than all the rest of a start; to see that none has
    changed takes little.
    """
    beside = directory.with_name(directory.name + ".made-of")
    made_of = _signature(machine)
    if directory.is_dir() and beside.is_file() and beside.read_text() == made_of:
        return
    beside.unlink(missing_ok=True)
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
    beside.write_text(made_of)


def _signature(machine: Path) -> str:
    """Return what is different when anything that is copied is.

    Or when the machine was started anew: a copy that nobody synced may have been lost in part.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    seen = hashlib.sha256(repr((boot, _COPIED, OVERLAID, _NAMES)).encode())
    for path in _walk(machine):
        status = path.lstat()
        facts = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        seen.update(f"{path}\0{status.st_ino} {facts}\n".encode(errors="surrogateescape"))
    return seen.hexdigest()


def _walk(machine: Path) -> Iterator[Path]:
    for name in _COPIED:
        source = machine / name
        if os.path.lexists(source):
            yield source
        if source.is_dir() and not source.is_symlink():
            for directory, below, files in os.walk(source):
                yield from (Path(directory, entry) for entry in sorted((*below, *files)))


def _unreadable(directory: str, names: list[str]) -> list[str]:
    """Leave out what not everybody on the machine may read: it is no tenant's business either."""
    refused = []
    for name in names:
        status = Path(directory, name).lstat()
        if not status.st_mode & 0o004:
            refused.append(name)
    return refused
