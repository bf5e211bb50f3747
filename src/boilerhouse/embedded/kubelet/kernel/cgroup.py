"""Memory, CPU and process limits, where the machine lets us set them.

    Groups.find ─► Group per container ─► its directories ─► entering.py, staging.py join them
                                     └─► Freezer: the processes of it, command by command

Two generations of cgroups: one tree (v2), or one per controller (v1, also beside an empty v2). In
both we use a subtree of the group we run in, so whoever started us bounds us as a whole. Where that
is not ours to divide, `unenforced` says why, and the Node tells it to everybody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from boilerhouse.embedded.kubelet.kernel.freezer import Freezer, listed

log = structlog.get_logger(__name__)

_CONTROLLERS = ("memory", "cpu", "pids")
_PROCESSES = 4096
_PROCESSES_SHARE = 0.75  # of all that the machine can number, for all containers together
# Seconds between tries to remove a group: of our own, and of a dead Boilerhouse at the next start.
_PAUSES = (0.001, 0.002, 0.005, 0.01, *(0.02,) * 500)
_PAUSES_AT_START = (0.001, 0.002, 0.005, 0.01, *(0.02,) * 25)
_PERIOD = 100_000
_SUPERVISOR = "supervisor"
_SOCKETS = "memory.kmem.tcp.limit_in_bytes"
_SOCKETS_USED = "memory.kmem.tcp.usage_in_bytes"


@dataclass(frozen=True, slots=True)
class Group:
    """The cgroup of one container: one directory, or one per controller."""

    directories: tuple[Path, ...] = ()
    by_controller: Mapping[str, Path] = field(default_factory=dict)
    unified: bool = False
    sockets: bool = False  # v1: the kernel can limit the memory of their buffers
    freezer: Freezer | None = None  # None where the kernel has none that is ours

    @property
    def joined(self) -> tuple[Path, ...]:
        """Where the container's own processes go."""
        return self.directories if self.freezer is None else (*self.shared, self.freezer.main)

    @property
    def shared(self) -> tuple[Path, ...]:
        """Where the processes of a command go, beside the group of its own that it has then."""
        # v2: below the group that has the limits, which is as good as in it.
        return () if self.unified and self.freezer is not None else self.directories

    @property
    def oom_file(self) -> Path | None:
        """Where the kernel counts whom it has killed for want of memory."""
        name = "memory.events" if self.unified else "memory.oom_control"
        return self.by_controller["memory"] / name if self.by_controller else None

    def limit(self, memory_bytes: int | None, cpu: float | None) -> None:
        """Set its limits, once; what is not given is without limit."""
        if not self.by_controller:
            return
        memory = self.by_controller["memory"]
        self.limit_cpu(cpu)
        if self.unified:
            _write(memory / "memory.max", memory_bytes or "max")
            if memory_bytes:
                with contextlib.suppress(OSError):  # no swap on this machine
                    _write(memory / "memory.swap.max", 0)
            return
        if memory_bytes:
            _write(memory / "memory.limit_in_bytes", memory_bytes)
            with contextlib.suppress(OSError):  # swap is not counted on this machine
                _write(memory / "memory.memsw.limit_in_bytes", memory_bytes)
            if self.sockets:
                # Counted apart from all else, where v2 counts them with it.
                _write(memory / _SOCKETS, memory_bytes)

    def limit_cpu(self, cpu: float | None) -> None:
        """Set how many processors' time it gets; None is no limit. May be changed at any time."""
        if not self.by_controller:
            return
        processor = self.by_controller["cpu"]
        quota = None if cpu is None else max(1000, int(cpu * _PERIOD))
        if self.unified:
            _write(processor / "cpu.max", f"{quota or 'max'} {_PERIOD}")
            return
        _write(processor / "cpu.cfs_period_us", _PERIOD)
        _write(processor / "cpu.cfs_quota_us", quota or -1)

    def socket_bytes(self) -> int | None:
        """Return what is in buffers of sockets, where that is counted apart."""
        return _number(self.by_controller["memory"] / _SOCKETS_USED) if self.sockets else None

    def processes(self) -> list[int] | None:
        """Return the processes in the group; None where there are no groups."""
        if not self.directories:
            return None
        return listed(self.directories[0]) if self.freezer is None else self.freezer.processes()

    def oom_killed(self) -> bool:
        """Tell whether the kernel has killed a process here for want of memory."""
        if self.oom_file is None:
            return False
        with contextlib.suppress(OSError):
            for line in self.oom_file.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count) > 0
        return False

    def remove(self) -> None:
        """Remove the group, and kill what is left in it; the kernel may need a moment for that."""
        _clear(list(dict.fromkeys((*self._frozen_apart(), *self.directories))), _PAUSES)

    def _frozen_apart(self) -> tuple[Path, ...]:
        return () if self.freezer is None else (self.freezer.directory,)


class Groups:
    """Where containers' groups are made. `unenforced` tells why none can be."""

    def __init__(
        self,
        roots: dict[str, Path],
        *,
        unified: bool,
        unenforced: str | None,
        freezer: tuple[Path, bool] | None = None,
    ) -> None:
        """Use these; `freezer` is where processes are frozen, and whether that is version 2."""
        self._roots = roots
        self._unified = unified
        self._freezer = freezer
        self.unenforced = unenforced
        self._sockets = bool(roots) and not unified and (roots["memory"] / _SOCKETS).exists()

    @property
    def enforced(self) -> str:
        """Say what is enforced, where something is."""
        if self._unified or self._sockets:
            return "memory and CPU limits are enforced"
        return (
            "memory and CPU limits are enforced, but not for the memory of sockets' buffers: this"
            f" kernel has no {_SOCKETS}"
        )

    @classmethod
    def find(cls, name: str, *, proc: Path = Path("/proc/self")) -> Groups:
        """Prepare a subtree of this name, and of our pid, under the group we run in.

        Subtrees of the dead, who were killed before they could clean up, are removed, with whoever
        is in them: the kernel would not let go of them otherwise.
        """
        own = f"{name}-{os.getpid()}"
        try:
            roots, unified = _subtrees(proc, own)
        except _Unavailable as why:
            return cls({}, unified=False, unenforced=str(why))
        freezer = _freezer(proc, own, roots["memory"] if unified else None)
        parents = {root.parent for root in _all(roots, freezer)}
        dead = [found for parent in parents for found in parent.glob(f"{name}-*") if _dead(found)]
        _clear(dead, _PAUSES_AT_START)
        _write(roots["pids"] / "pids.max", _most_processes())
        return cls(roots, unified=unified, unenforced=None, freezer=freezer)

    def socket_bytes(self) -> int | None:
        """Return what all containers have in buffers of sockets, where that is counted apart."""
        return _number(self._roots["memory"] / _SOCKETS_USED) if self._sockets else None

    def create(self, name: str) -> Group:
        """Make a container's group; without enforcement, an empty one."""
        if not self._roots:
            return Group()
        directories = {root: root / name for root in self._roots.values()}
        for directory in directories.values():
            directory.mkdir(exist_ok=True)
        by_controller = {part: directories[self._roots[part]] for part in _CONTROLLERS}
        _write(by_controller["pids"] / "pids.max", _PROCESSES)
        freezer = None
        if self._freezer is not None:
            root, unified = self._freezer
            freezer = Freezer(root / name, unified=unified)
            freezer.make()
        return Group(
            tuple(directories.values()),
            by_controller,
            unified=self._unified,
            sockets=self._sockets,
            freezer=freezer,
        )

    def close(self) -> None:
        """Remove the subtree, with whoever is left in it; on v2 we stay in our own corner."""
        _clear(_all(self._roots, self._freezer), _PAUSES)


def _all(roots: dict[str, Path], freezer: tuple[Path, bool] | None) -> list[Path]:
    return list(dict.fromkeys((*roots.values(), *((freezer[0],) if freezer else ()))))


class _Unavailable(Exception):
    pass


def _subtrees(proc: Path, name: str) -> tuple[dict[str, Path], bool]:
    split, unified = _mounts(proc)
    own = _own(proc)
    if "memory" in split:
        roots = {}
        for controller in _CONTROLLERS:
            if controller not in split:
                raise _Unavailable(f"the cgroup controller {controller} is not mounted")
            roots[controller] = _subtree(_below(split[controller], own.get(controller, "/")), name)
        return roots, False
    if unified is None:
        raise _Unavailable("no cgroups are mounted")
    root = _unified(_below(unified, own.get("", "/")), name)
    return dict.fromkeys(_CONTROLLERS, root), True


def _freezer(proc: Path, name: str, limits: Path | None) -> tuple[Path, bool] | None:
    """Return where processes can be frozen, and whether by version 2; None if nowhere.

    `limits` is the subtree of the one tree there is, if there is only one.
    """
    if limits is not None:
        return (limits, True) if (limits / "cgroup.freeze").exists() else None
    split, unified = _mounts(proc)
    own = _own(proc)
    with contextlib.suppress(_Unavailable):
        if unified is not None:
            root = _subtree(_below(unified, own.get("", "/")), name)
            if (root / "cgroup.freeze").exists():
                return root, True
            root.rmdir()
    with contextlib.suppress(_Unavailable):
        if "freezer" in split:
            return _subtree(_below(split["freezer"], own.get("freezer", "/")), name), False
    return None


def _most_processes() -> int:
    """Return how many all containers may have together; threads count, as they are numbered."""
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    return max(_PROCESSES, int(limit * _PROCESSES_SHARE))


def _subtree(parent: Path, name: str) -> Path:
    root = parent / name
    try:
        root.mkdir(exist_ok=True)
    except OSError as error:
        raise _Unavailable(
            f"the cgroup {parent} is not ours to divide ({error.strerror}); run as root or in a "
            "delegated cgroup"
        ) from error
    return root


def _unified(parent: Path, name: str) -> Path:
    offered = set((parent / "cgroup.controllers").read_text().split())
    missing = [controller for controller in _CONTROLLERS if controller not in offered]
    if missing:
        raise _Unavailable(f"the cgroup {parent} has no controller {', '.join(missing)}")
    root = _subtree(parent, name)
    for group in (parent, root):
        _divide(group, parent)
    return root


def _divide(group: Path, parent: Path) -> None:
    """Hand controllers down to a group's children; a group that does so may hold no processes."""
    wanted = " ".join(f"+{controller}" for controller in _CONTROLLERS)
    try:
        _write(group / "cgroup.subtree_control", wanted)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise _Unavailable(
                f"the cgroup {group} is not ours to divide ({error.strerror}); run as root or by "
                "systemd-run --user --scope -p Delegate=yes"
            ) from error
        strangers = set((group / "cgroup.procs").read_text().split()) - {str(os.getpid())}
        if strangers:
            raise _Unavailable(
                f"other processes share the cgroup {group}; run by "
                "systemd-run --user --scope -p Delegate=yes, or as a service"
            ) from error
        supervisor = parent / _SUPERVISOR
        supervisor.mkdir(exist_ok=True)
        _write(supervisor / "cgroup.procs", 0)
        _write(group / "cgroup.subtree_control", wanted)


def _mounts(proc: Path) -> tuple[dict[str, tuple[Path, str]], tuple[Path, str] | None]:
    """Return the mounts of split controllers and of the unified tree: (where, which part of it)."""
    split: dict[str, tuple[Path, str]] = {}
    unified = None
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, point = fields.split(" ")[3:5]
        if kind == "cgroup2":
            unified = (Path(point), root)
        elif kind == "cgroup":
            for option in options.split(","):
                split[option] = (Path(point), root)
    return split, unified


def _own(proc: Path) -> dict[str, str]:
    """Return the group we are in, by controller; the unified tree's under the empty name."""
    groups = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _below(mount: tuple[Path, str], path: str) -> Path:
    point, root = mount
    inside = path.removeprefix(root) if root != "/" else path
    return point / inside.lstrip("/")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # the group is gone
        return None


def _write(path: Path, value: object) -> None:
    path.write_text(str(value))


def _dead(subtree: Path) -> bool:
    """Tell whether whoever made a subtree is gone; its name ends with that process's number."""
    pid = subtree.name.rpartition("-")[2]
    return pid.isdecimal() and not Path("/proc", pid).exists()


def _clear(subtrees: list[Path], pauses: tuple[float, ...]) -> None:
    """Remove subtrees with every process in them; another start may be doing so as well."""
    # All are killed first: of v1, who is frozen in one tree is still in the others.
    for subtree in subtrees:
        for group in _tree(subtree):
            _kill(group)
    for subtree in subtrees:
        if not _remove_tree(subtree, pauses):
            pauses = ()  # what holds this one holds the others too, and has been waited for


def _tree(directory: Path) -> list[Path]:
    """Return a group and all below it, the lowest first."""
    try:
        below = [path for path in directory.iterdir() if path.is_dir()]
    except OSError:  # removed meanwhile
        return []
    return [*(found for path in below for found in _tree(path)), directory]


def _kill(group: Path) -> None:
    """Kill who is in a group; those of another process namespace show as 0, and are not ours."""
    for pid in listed(group):
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)
    state = group / "freezer.state"
    with contextlib.suppress(OSError):
        if state.exists():  # v1: who is frozen there cannot die
            _write(state, "THAWED")


def _remove_tree(directory: Path, pauses: tuple[float, ...]) -> bool:
    for group in _tree(directory):
        if not _remove(group, pauses):
            log.warning("kubelet.cgroup_left", path=str(group), processes=listed(group))
            return False  # nor can what it is in be removed
    return True


def _remove(directory: Path, pauses: tuple[float, ...]) -> bool:
    """Remove a group; the kernel may need a while until it is done with those killed there."""
    for pause in (*pauses, 0.0):
        try:
            directory.rmdir()
            return True
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        time.sleep(pause)
    return False
