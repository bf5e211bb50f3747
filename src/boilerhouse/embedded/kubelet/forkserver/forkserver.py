"""The small process that all tenants descend from.

    kubelet ◄─ socket pair: requests, replies, exits, descriptors ─► fork server ─┬─► bwrap (pid 1)
                                                                                  └─► programs in it

Entering namespaces means forking, and forking a large program with threads is slow and unsafe. This
one is small, has one thread, and starts before there is anything to copy. It is also what ties
tenants to the life of Boilerhouse: when the socket closes, because its parent wants so or is dead,
it kills whoever descends from it and ends. Should it be killed itself, bwrap's `--die-with-parent`
takes every container along, except one that is just being set up.

It lives in a network and a mount namespace of its own, so it can step into a Pod's and back.
Run by an ordinary user, it first makes a user namespace in which it may do so, and runs from a
read-only mount of the interpreter: a tenant that gets hold of `/proc/self/exe` cannot write to it.
Only the standard library may be imported.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from boilerhouse.embedded.kubelet.forkserver import staging
from boilerhouse.embedded.kubelet.forkserver.forkwire import receive, send
from boilerhouse.embedded.kubelet.forkserver.prefork import Prefork
from boilerhouse.embedded.kubelet.kernel import closedroutes, entering, linux, pause, seccomp

_END_SECONDS = 5
_RECORD = 9  # bytes of what entering.py reports: a letter and a number
_SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class _Server:
    def __init__(self, channel: socket.socket, bwrap: str, libraries: str | None) -> None:
        self._channel = channel
        machine = os.uname().machine
        self._filter = seccomp.program(machine)
        with open(bwrap, "rb") as source:  # noqa: PTH123
            self._tools = staging.Tools(
                bwrap=_sealed(source.read()),
                libraries=libraries,
                # Not readable: then the kernel lets no tenant trace it, and act as pid 1.
                pause=_sealed(pause.program(machine), mode=0o111),
                filter=_sealed(self._filter),
            )
        tools = self._tools
        self._prefork = Prefork((tools.bwrap, tools.pause, tools.filter))
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._selector = selectors.DefaultSelector()
        # Children the kubelet was told of; those that only lead to one; and how many of these
        # have not reported yet: only then can an unknown exit be that of a child to be told of.
        self._told: set[int] = set()
        self._steps: set[int] = set()
        self._expected = 0
        self._early: dict[int, int] = {}

    def run(self) -> None:
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ, lambda: self._reap(woken))
        self._selector.register(self._channel, selectors.EVENT_READ, self._serve)
        gc.freeze()  # what is here now stays: children need not copy pages to count it
        send(self._channel, {"ready": os.getpid()}, [])
        try:
            while True:
                for key, _ in self._selector.select():
                    act: Callable[[], None] = key.data
                    act()
        except ConnectionError:
            _end()  # the parent died while it was being told something

    def _serve(self) -> None:
        try:
            received = receive(self._channel)
        except ConnectionError:
            received = None
        if received is None:
            _end()
        request, fds = received
        try:
            if "truncated" in request:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            operation = getattr(self, "_" + request["op"])
            operation(request, fds)
        except OSError as error:
            self._fail(request["id"], error)
            self._prefork.forget(request.get("seed", 0))  # whoever waited for this does no longer
        finally:
            for fd in fds:
                os.close(fd)

    def _fail(self, number: int, error: OSError) -> None:
        text = error.strerror or str(error)
        name = f" {error.filename!r}" if error.filename else ""
        send(self._channel, {"id": number, "error": text + name, "errno": error.errno or 0}, [])

    def _network(self, request: dict[str, Any], fds: list[int]) -> None:
        """Make a network namespace with nothing in it but its loopback, up."""
        linux.unshare(linux.CLONE_NEWNET)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                # struct ifreq: name, then IFF_UP | IFF_RUNNING; 0x8914 is SIOCSIFFLAGS
                fcntl.ioctl(control, 0x8914, struct.pack("16sh22x", b"lo", 0x41))
            closedroutes.close_metadata()
            made = os.open("/proc/self/ns/net", os.O_RDONLY)
        finally:
            linux.setns(self._home, linux.CLONE_NEWNET)
        send(self._channel, {"id": request["id"]}, [made])
        os.close(made)

    def _sockets(self, request: dict[str, Any], fds: list[int]) -> None:
        """Make TCP sockets that belong to a network namespace."""
        made: list[socket.socket] = []
        linux.setns(fds[0], linux.CLONE_NEWNET)
        try:
            made.extend(
                socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                for _ in range(request["count"])
            )
        finally:
            linux.setns(self._home, linux.CLONE_NEWNET)
        send(self._channel, {"id": request["id"]}, [one.fileno() for one in made])
        for one in made:
            one.close()

    def _seed(self, request: dict[str, Any], fds: list[int]) -> None:
        """Have a process wait in a cgroup for a request that names it."""
        pid = self._prefork.fork(request["cgroups"], self._act, self._fork)
        self._steps.add(pid)
        pidfd = os.pidfd_open(pid)
        send(self._channel, {"id": request["id"], "seed": pid}, [pidfd])
        os.close(pidfd)

    def _begin(self, request: dict[str, Any], fds: list[int]) -> int:
        """Have a process do what is asked for: the one that waits for it, or a new one."""
        waiting: int = request.get("seed", 0)
        if self._prefork.use(waiting, request, fds):
            return waiting
        return self._fork(lambda: self._act(request, fds))

    def _act(self, request: dict[str, Any], fds: list[int]) -> None:
        """Become what was asked for, in a child. Where to say what went wrong is in `fds`."""
        if request["op"] == "sandbox":
            try:
                staging.start(request, self._tools, fds)
            except OSError as error:
                name = f" {error.filename!r}" if error.filename else ""
                os.write(fds[2], f"{error.strerror or error}{name}\n".encode())
            return
        *given, report = fds
        try:
            entering.enter(request, self._filter, given, report)
        except OSError as error:
            text = f"{error.strerror or error} {error.filename or ''}".strip()
            os.write(report, b"x" + text.encode())

    def _sandbox(self, request: dict[str, Any], fds: list[int]) -> None:
        """Start bwrap around a new pid 1."""
        pid = self._begin(request, fds)
        self._steps.discard(pid)
        self._started(request["id"], pid, 0)

    def _enter(self, request: dict[str, Any], fds: list[int]) -> None:
        """Start a program in a sandbox; the reply follows when it runs, or cannot.

        Of one that is gated it follows when it stands at its gate; that it has passed is told then.
        """
        if _parent(request["init"]) != request["bwrap"]:
            raise OSError("the container has ended")
        report, write = os.pipe()
        try:
            self._steps.add(self._begin(request, [*fds, write]))
        except OSError:
            os.close(report)
            raise
        finally:
            os.close(write)
        self._expected += 1
        gathered = bytearray()
        number = request["id"]
        waiting = 0  # at its gate: the process

        def gather() -> None:
            nonlocal waiting
            if data := os.read(report, 4096):
                gathered.extend(data)
                stands = len(gathered) == _RECORD and gathered.startswith(b"p")
                if stands and request.get("gated"):
                    waiting, _ = _reported(gathered)
                    self._started(number, waiting, 0, gated=True)
                    self._arrived()
                return
            self._selector.unregister(report)
            os.close(report)
            pid, failure = _reported(gathered)
            if waiting:
                send(self._channel, {"passed": waiting, "failure": failure}, [])
                return
            if pid:
                self._started(number, pid, failure)
            else:
                text = gathered[1:].decode(errors="replace")
                error = text or "the container ended, or was killed, before it could be entered"
                send(self._channel, {"id": number, "error": error, "errno": 0}, [])
            self._arrived()

        self._selector.register(report, selectors.EVENT_READ, gather)

    def _arrived(self) -> None:
        self._expected -= 1
        if not self._expected:
            self._early.clear()

    def _started(self, number: int, pid: int, failure: int, *, gated: bool = False) -> None:
        """Tell of a process, with a descriptor of it: its number may be another's by tomorrow."""
        message = {"id": number, "pid": pid, "failure": failure, "gated": gated}
        self._told.add(pid)
        if pid in self._early:
            send(self._channel, message, [])
            self._tell(pid, self._early.pop(pid))
            return
        pidfd = os.pidfd_open(pid)
        send(self._channel, message, [pidfd])
        os.close(pidfd)

    def _fork(self, start: Callable[[], None]) -> int:
        """Run `start` in a child, which ends with it."""
        child = os.fork()
        if child:
            return child
        try:
            signal.set_wakeup_fd(-1)
            start()
        finally:
            # Whatever happened, a child must never go on as a second server.
            os._exit(125)

    def _reap(self, woken: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while woken.recv(4096):
                pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._steps:
                self._steps.discard(pid)
                self._prefork.forget(pid)
            elif pid in self._told:
                self._tell(pid, status)
            elif self._expected:
                self._early[pid] = status

    def _tell(self, pid: int, status: int) -> None:
        self._told.discard(pid)
        send(self._channel, {"exited": pid, "status": status}, [])


def _reported(report: bytes | bytearray) -> tuple[int, int]:
    """Return the pid and the failure of who entered a sandbox; 0 where there is none.

    In any order: the child may fail before its parent has told its number.
    """
    told = {
        bytes(report[at : at + 1]): int.from_bytes(report[at + 1 : at + _RECORD], "little")
        for at in (0, _RECORD)
        if report[at:]
    }
    return told.get(b"p", 0), told.get(b"e", 0)


def _end() -> NoReturn:
    """End, after everybody else: whose parent is killed becomes our child, and is killed next.

    bwrap's first process is not tied to its parent from its very beginning; we see to it here.
    """
    signal.set_wakeup_fd(-1)
    signal.alarm(_END_SECONDS)  # its default is our end: one who cannot be killed is not waited for
    # No child left; or a kernel that does not list them.
    with contextlib.suppress(ChildProcessError, FileNotFoundError):
        while True:
            with open("/proc/thread-self/children", encoding="ascii") as file:  # noqa: PTH123
                for pid in file.read().split():
                    os.kill(int(pid), signal.SIGKILL)
            os.waitpid(-1, 0)
    os._exit(0)


def _parent(pid: int) -> int:
    """Return the parent of a process, 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _sealed(content: bytes, mode: int = 0o555) -> int:
    """Put bytes into an executable memory file that nobody can change any more."""
    fd = os.memfd_create("boilerhouse", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    while content:
        content = content[os.write(fd, content) :]
    os.fchmod(fd, mode)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALED)
    return fd


def _isolate() -> None:
    """As root: namespaces of our own, so that nothing done here shows elsewhere."""
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET)
    linux.mount("", "/", "", linux.MS_SLAVE | linux.MS_REC)


def _isolate_as_user(arguments: list[str]) -> NoReturn:
    """As an ordinary user: the same inside a user namespace, then start over from there."""
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWNET)
    entering.write_file("/proc/self/setgroups", "deny")
    entering.write_file("/proc/self/uid_map", f"{uid} {uid} 1")
    entering.write_file("/proc/self/gid_map", f"{gid} {gid} 1")
    linux.mount("", "/", "", linux.MS_SLAVE | linux.MS_REC)
    python = os.path.realpath(sys.executable)
    linux.mount(python, python, "", linux.MS_BIND)
    # What the mount refuses already must be refused again, else the kernel refuses the change.
    kept = os.statvfs(python).f_flag & (linux.MS_NOSUID | linux.MS_NODEV | 0x8 | 0x400 | 0x800)
    linux.mount("", python, "", linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | kept)
    linux.keep_capabilities()
    os.execv(python, [python, *sys.orig_argv[1 : -len(arguments)], *arguments, "inside"])  # noqa: S606


def main(arguments: list[str]) -> None:
    """Serve until the socket closes: arguments are fd, bwrap, its libraries or ""."""
    channel = socket.socket(fileno=int(arguments[0]))
    try:
        linux.prepare()
        if "inside" not in arguments:
            if os.geteuid():
                os.set_inheritable(channel.fileno(), True)
                _isolate_as_user(arguments)
            _isolate()
        channel.set_inheritable(False)
        linux.adopt_orphans()
        with contextlib.suppress(OSError):  # a kernel without keyrings has none to leave
            linux.empty_keyring()
        server = _Server(channel, arguments[1], arguments[2] or None)
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        send(channel, {"error": f"{error.strerror or error}{name}"}, [])
        return
    server.run()
