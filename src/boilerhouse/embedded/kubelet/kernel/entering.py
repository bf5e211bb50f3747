"""Between fork and exec: takes a process into a running container and lets it out never again.

    fork ─► cgroup ─► namespaces ─► no capabilities, no new privileges, filter ─► fork ─► exec

The order is the point. Every right to enter comes from being outside, so all descriptors are opened
first; the process namespace takes effect only for a child, so there are two forks; and the one that
the tenant can see, the second, has already lost everything, and cannot be traced until it is the
program that was asked for.
Only the standard library may be imported: this runs in children of the fork server.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
import termios
from collections.abc import Sequence
from typing import Any

from boilerhouse.embedded.kubelet.kernel import linux

_OPEN_FILES = 65536
_PROCESSES = 4096
_TIOCSPTLCK = 0x40045431
_TIOCGPTPEER = 0x5441
_OOM_SCORE = "500"  # the machine sacrifices tenants before Boilerhouse

# In this order: the first needs rights outside the container, the others rights in its owner.
_NAMESPACES = {
    "mnt": linux.CLONE_NEWNS,
    "pid": linux.CLONE_NEWPID,
    "ipc": linux.CLONE_NEWIPC,
    "uts": linux.CLONE_NEWUTS,
    "cgroup": linux.CLONE_NEWCGROUP,
}


def enter(request: dict[str, Any], program: bytes, fds: Sequence[int], report: int) -> None:
    """Start a program in the container whose pid 1 is named; report its pid. Returns never.

    `session`, if it has one, is the cgroup that it gets for itself: it is made here, where whoever
    asked for it need not wait for the kernel.
    `fds` are its three descriptors or, for a terminal, one socket on which to hand it out; of one
    that is `gated`, also where it waits for a byte until it may begin.
    `report` gets `p` and the pid in 8 bytes; if the program cannot be run, also `e` and why.
    """
    stdio, gate = (fds[:-1], fds[-1]) if request.get("gated") else (fds, -1)
    init = request["init"]
    session = request.get("session")
    if session:
        os.mkdir(session)  # noqa: PTH102  no pathlib in the fork server
        join([*request["cgroups"], session])
    else:
        join(request["cgroups"])
    spaces = {
        name: os.open(f"/proc/{init}/ns/{name}", os.O_RDONLY)
        for name in ("net", *_NAMESPACES, "user")
    }
    owner = linux.owner_of(spaces["mnt"])
    linux.setns(spaces["net"], linux.CLONE_NEWNET)
    become(request["uid"], request["gid"])
    linux.setns(owner, linux.CLONE_NEWUSER)
    for name, kind in _NAMESPACES.items():
        linux.setns(spaces[name], kind)
    # With --disable-userns a container's processes live one level below the owner of its mounts.
    if os.fstat(owner).st_ino != os.fstat(spaces["user"]).st_ino:
        linux.setns(spaces["user"], linux.CLONE_NEWUSER)
    # Only now: set where a user namespace is made, it would bound all containers together.
    _limit(resource.RLIMIT_NPROC, _PROCESSES)
    linux.hide_memory()
    linux.drop_capabilities()
    linux.no_new_privileges()
    linux.install_filter(program)
    if request["tty"]:
        stdio = _terminal(stdio[0])
    try:
        child = os.fork()
    except OSError as error:
        # What the kernel says of a process namespace whose first process is gone.
        if error.errno == errno.ENOMEM:
            raise OSError("the container has ended") from error
        raise
    if child:
        os.write(report, b"p" + child.to_bytes(8, "little"))
        os._exit(0)
    _run(request, stdio, report, gate)


def _terminal(channel: int) -> tuple[int, int, int]:
    """Make a terminal of the container's own, hand its other end out, return it three times.

    Not one of the machine's: the program could not find its name, and could find others.
    """
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    with socket.socket(fileno=os.dup(channel)) as out:
        socket.send_fds(out, [b"t"], [master])
    os.close(master)
    return slave, slave, slave


def _run(request: dict[str, Any], stdio: Sequence[int], report: int, gate: int) -> None:
    try:
        os.setsid()
        place(stdio)
        if request["tty"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # Before anything of the tenant's is looked at: it may be another's, or half there, by now.
        if gate >= 0 and not _opened(gate, report):
            return  # nobody will open it any more
        os.chdir(request["cwd"])
        _execute(request["argv"], request["env"])
    except OSError as error:
        os.write(report, b"e" + (error.errno or errno.EIO).to_bytes(8, "little"))
    finally:
        os._exit(127)


def _opened(gate: int, report: int) -> bool:
    """Wait at the gate, for as long as it takes: so with nothing of the fork server's in hand."""
    low, high = sorted((gate, report))
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, _OPEN_FILES)
    return bool(os.read(gate, 1))


def _execute(argv: list[str], environment: dict[str, str]) -> None:
    """Look the program up as a shell does: on PATH unless its name has a slash."""
    program = argv[0]
    if "/" in program:
        os.execve(program, argv, environment)  # noqa: S606  a tenant's program is the point
    failure = FileNotFoundError(errno.ENOENT, program)
    for directory in environment.get("PATH", "").split(":") if program else ():
        try:
            os.execve(f"{directory or '.'}/{program}", argv, environment)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            # Remembered, while a later directory may still have one that runs.
            failure = error  # type: ignore[assignment]  # both are OSErrors with an errno
    raise failure


def join(cgroups: list[str]) -> None:
    """Move this process into the container's cgroups, and to the front when memory runs out."""
    for path in cgroups:
        write_file(f"{path}/cgroup.procs", "0")
    with contextlib.suppress(OSError):  # an ordinary user whose own score is higher keeps that
        write_file("/proc/self/oom_score_adj", _OOM_SCORE)


def become(uid: int, gid: int) -> None:
    """Be the tenant to the kernel, within its limits. An ordinary user already is."""
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    if os.getuid() != uid:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _limit(what: int, value: int) -> None:
    _, most = resource.getrlimit(what)
    allowed = value if most == resource.RLIM_INFINITY else min(most, value)
    resource.setrlimit(what, (allowed, allowed))


def place(stdio: Sequence[int]) -> None:
    """Put three descriptors at 0, 1, 2; every other one closes at exec; undo Python's signals."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in stdio]
    for number, fd in enumerate(high):
        os.dup2(fd, number, inheritable=True)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the two that Python ignores; exec keeps that
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def write_file(path: str, content: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, content.encode())
    finally:
        os.close(fd)
