"""Removes what a node leaves in the kernel: containers, mounts, cgroups, the network namespace.

Everything here is recognised as the node's own by its directory, its cgroup root or its namespace,
so that it also works after a crash, when nobody remembers anything.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from cluster.nodeconfig import CGROUP, NodeFiles
from cluster.places import ClusterError

NETNS = Path("/run/netns/boilerhouse")
_CGROUPS = Path("/sys/fs/cgroup")


def remove(files: NodeFiles) -> None:
    """Remove all of it. The recorded processes must have been stopped before."""
    _end_containers(files)
    _unmount(files.directory)
    for root in cgroups():
        _remove_cgroup(root)
    if NETNS.exists():
        subprocess.run(["ip", "netns", "del", NETNS.name], check=True)
    for result in Path("/var/lib/cni/results").glob("*"):
        # The plugins' record of a Pod's interface names the Pod's namespace, which is under `run`.
        if f'"{files.run}/' in result.read_text():
            result.unlink()
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(f"{files.logs}/"):
            link.unlink(missing_ok=True)


def found(files: NodeFiles) -> list[str]:
    """Name everything that is still there; empty when the machine is clean."""
    names = [f"process {pid}" for pid in _shims(files)]
    names += [f"process {pid}" for root in cgroups() for pid in _members(root)]
    names += [f"mount {path}" for path in _mounts(files.directory)]
    names += [f"cgroup {path}" for path in cgroups()]
    names += [f"namespace {NETNS.name}"] if NETNS.exists() else []
    return names


def cgroups() -> list[Path]:
    """Return our cgroup root in every hierarchy it exists in."""
    if (_CGROUPS / "cgroup.controllers").exists():
        candidates = [_CGROUPS / CGROUP]
    else:
        hierarchies = {path.resolve() for path in _CGROUPS.iterdir() if path.is_dir()}
        candidates = [path / CGROUP for path in sorted(hierarchies)]
    return [path for path in candidates if path.is_dir()]


def make_cgroups() -> None:
    """Make our cgroup root in every hierarchy: kubelet wants it to exist."""
    if (_CGROUPS / "cgroup.controllers").exists():
        (_CGROUPS / CGROUP).mkdir(exist_ok=True)
        return
    for hierarchy in sorted({path.resolve() for path in _CGROUPS.iterdir() if path.is_dir()}):
        root = hierarchy / CGROUP
        root.mkdir(exist_ok=True)
        # A new cpuset is empty, and nothing runs in an empty one.
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (root / name).exists():
                (root / name).write_text((hierarchy / name).read_text())


def _end_containers(files: NodeFiles) -> None:
    """Kill shims, then whatever is in our cgroups, until nothing is left."""
    end = time.monotonic() + 10
    while True:
        left = _shims(files) or [pid for root in cgroups() for pid in _members(root)]
        if not left:
            return
        if time.monotonic() > end:
            raise ClusterError(f"processes of the node survived SIGKILL for 10 s: {left}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _shims(files: NodeFiles) -> list[int]:
    """Return the shims of our containerd: its socket is among their arguments."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = path.read_bytes().split(b"\0")
            ours = str(files.containerd_socket).encode() in arguments
            if ours and b"containerd-shim" in arguments[0]:
                pids.append(int(path.parent.name))
    return pids


def _members(root: Path) -> list[int]:
    pids: list[int] = []
    for path in root.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            pids += map(int, path.read_text().split())
    return pids


def _mounts(directory: Path) -> list[str]:
    prefix = f"{directory}/"
    lines = Path("/proc/self/mounts").read_text().splitlines()
    paths = [line.split()[1].encode().decode("unicode_escape") for line in lines]
    return sorted((path for path in paths if path.startswith(prefix)), reverse=True)


def _unmount(directory: Path) -> None:
    for path in _mounts(directory):
        subprocess.run(["umount", "-l", path], check=True)


def _remove_cgroup(root: Path) -> None:
    """Remove a cgroup tree, deepest first; the kernel may need a moment after the last process."""
    end = time.monotonic() + 5
    while root.exists():
        for path in sorted((p for p in root.rglob("*") if p.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()
        try:
            root.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > end:
                raise ClusterError(f"cgroup {root} stays: {error}") from error
            time.sleep(0.05)
