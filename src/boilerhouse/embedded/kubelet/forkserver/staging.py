"""Between fork and bwrap: lays out what a container will see, where the tenant's uid may reach it.

    fork ─► own mount namespace ─► sources bound, layers overlaid ─► tenant's uid ─► bwrap

bwrap runs as the tenant, so it can bind only what the tenant may reach; volumes and layers lie in a
data directory that is closed to it. Here, still with privileges, they are bound below a tmpfs that
exists in this process's mount namespace alone: nothing outside sees it, nothing is left behind.
Only the standard library may be imported: this runs in children of the fork server.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from boilerhouse.embedded.kubelet.kernel import entering, linux

_STAGE = "/tmp"  # noqa: S108  in a mount namespace of our own, under a fresh tmpfs
_ROOT = f"{_STAGE}/root"


class Tools(NamedTuple):
    """What every sandbox is made with; descriptors of sealed memory, a directory on disk."""

    bwrap: int
    libraries: str | None
    pause: int
    filter: int


def start(request: dict[str, Any], tools: Tools, fds: Sequence[int]) -> None:
    """Become bwrap, holding a new sandbox open. Raises OSError; returns never."""
    network, ready, errors, info = fds
    parent = os.getppid()
    entering.join(request["cgroups"])
    linux.setns(network, linux.CLONE_NEWNET)
    linux.unshare(linux.CLONE_NEWNS)

    image = request["image"]
    base = len(request["base"])
    bound = [*request["base"], *request["mounts"]]
    mounts = [(_source(mount["source"]), mount) for mount in bound]
    layers = [_source(path) for path in image["layers"]] if image else []
    writable = _source(image["writable"]) if image else -1
    linked = _source(tools.libraries) if tools.libraries else -1
    linux.mount("tmpfs", _STAGE, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755,size=1m")
    if tools.libraries:
        _bind(linked, f"{_STAGE}/lib")
    for number, (source, _) in enumerate(mounts):
        _bind(source, f"{_STAGE}/m{number}")
    if image:
        _overlay(layers, writable, request)

    linux.clear_ambient()
    entering.become(request["uid"], request["gid"])
    linux.die_with_parent(parent)
    arguments = list(request["head"])
    if image:
        arguments += ["--ro-bind" if request["read_only_root"] else "--bind", _ROOT, "/"]
    root = os.open(_ROOT, os.O_PATH | os.O_DIRECTORY) if image else -1
    for directory in request["directories"] if image else ():
        _target(root, directory, directory=True)
    arguments += request["body"]
    arguments += _bindings(mounts[:base], 0, -1)
    for path, content in request["files"]:
        target = _target(root, path, directory=False) if image else path
        arguments += ["--perms", "0644", "--ro-bind-data", str(_memory(content)), target]
    arguments += _bindings(mounts[base:], base, root)
    arguments += request["tail"]
    # Opened anew: a duplicate would share its position with every other sandbox's.
    rules = os.open(f"/proc/self/fd/{tools.filter}", os.O_RDONLY)
    arguments += ["--seccomp", str(rules), "--info-fd", str(info)]

    nothing = os.open("/dev/null", os.O_RDONLY)
    entering.place((nothing, ready, errors))
    for fd in (info, rules, tools.pause):
        os.set_inheritable(fd, True)
    given = _memory_bytes(b"\0".join(os.fsencode(argument) for argument in arguments) + b"\0")
    environment = {"LD_LIBRARY_PATH": f"{_STAGE}/lib"} if tools.libraries else {}
    command = ["bwrap", "--args", str(given), "--", f"/proc/self/fd/{tools.pause}"]
    os.execve(f"/proc/self/fd/{tools.bwrap}", command, environment)  # noqa: S606


def _bindings(mounts: list[tuple[int, dict[str, Any]]], first: int, root: int) -> list[str]:
    """Return bwrap's arguments for what was bound below the stage; `root` is an image's, or -1."""
    arguments = []
    for number, (source, mount) in enumerate(mounts, first):
        target = mount["target"]
        if root >= 0:
            target = _target(root, target, directory=stat.S_ISDIR(os.fstat(source).st_mode))
        verb = "--ro-bind" if mount["read_only"] else "--bind"
        arguments += [verb, f"{_STAGE}/m{number}", target]
    return arguments


def _source(path: str) -> int:
    """Open what is to be bound; a link at the end is refused: the tenant may have made it."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        raise OSError(f"{path} is a symbolic link")
    return fd


def _bind(source: int, target: str) -> None:
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.mkdir(target)  # noqa: PTH102  no pathlib in the fork server
    else:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    linux.mount(f"/proc/self/fd/{source}", target, "", linux.MS_BIND | linux.MS_REC)


def _overlay(layers: list[int], writable: int, request: dict[str, Any]) -> None:
    image = request["image"]
    # Layers belong to whoever imported them. As root, that is not the tenant: an idmapped mount
    # shows each file as the tenant's own, as it would be if the tenant had unpacked the image.
    mapping = _mapping(request) if os.geteuid() == 0 else -1
    lower = []
    for number, layer in enumerate(layers):
        place = f"{_STAGE}/l{number}"
        if mapping < 0:
            _bind(layer, place)
        else:
            os.mkdir(place)  # noqa: PTH102
            linux.mount_mapped(layer, place, mapping)
        lower.append(place)
    _bind(writable, f"{_STAGE}/rw")
    os.mkdir(_ROOT)  # noqa: PTH102
    options = (
        f"lowerdir={':'.join(reversed(lower))},upperdir={_STAGE}/rw/{image['upper']}"
        f",workdir={_STAGE}/rw/{image['work']},userxattr"
    )
    linux.mount("overlay", _ROOT, "overlay", linux.MS_NOSUID | linux.MS_NODEV, options)


def _mapping(request: dict[str, Any]) -> int:
    """Return a user namespace that translates root's files into the tenant's."""
    gone, keep = os.pipe()
    child = os.fork()
    if child == 0:
        # Lives only until its namespace is open here.
        os.close(keep)
        with contextlib.suppress(OSError):
            linux.unshare(linux.CLONE_NEWUSER)
            os.write(1, b"")
            os.read(gone, 1)
        os._exit(0)
    os.close(gone)
    try:
        return _mapped(child, request["uid"], request["gid"])
    finally:
        os.close(keep)
        os.waitpid(child, 0)


def _mapped(child: int, uid: int, gid: int) -> int:
    own = os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116
    while os.stat(f"/proc/{child}/ns/user").st_ino == own:  # noqa: PTH116
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise OSError("the user namespace for mapped layers could not be made")
        os.sched_yield()
    for name, value in (("uid_map", uid), ("gid_map", gid)):
        entering.write_file(f"/proc/{child}/{name}", f"0 {value} 1")
    return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)


def _target(root: int, path: str, *, directory: bool) -> str:
    """Make the place for a mount inside an image and return its path without links.

    An image's links must not send bwrap, which would follow them from its own root, anywhere else.
    """
    at = os.dup(root)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for number in range(1, len(parts) + 1):
        here = "/".join(parts[:number])
        wanted = os.O_PATH if number == len(parts) and not directory else os.O_PATH | os.O_DIRECTORY
        try:
            found = linux.open_beneath(root, here, wanted)
        except FileNotFoundError:
            if number == len(parts) and not directory:
                os.close(os.open(parts[-1], os.O_CREAT | os.O_EXCL, 0o644, dir_fd=at))
            else:
                os.mkdir(parts[number - 1], 0o755, dir_fd=at)
            found = linux.open_beneath(root, here, wanted)
        os.close(at)
        at = found
    real = os.readlink(f"/proc/self/fd/{at}")  # noqa: PTH115
    os.close(at)
    return real.removeprefix(_ROOT) or "/"


def _memory(content: str) -> int:
    return _memory_bytes(os.fsencode(content))


def _memory_bytes(content: bytes) -> int:
    """Return an inheritable descriptor of these bytes, at their start."""
    fd = os.memfd_create("bh", 0)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
