"""A started container: its pid 1, its own process, and everything else in its process namespace.

Sandbox.start   ─► Container (Running) ─► wait: own process ends ─► the rest is killed ─► Exit
Sandbox.prepare ─► stand, at the gate ─┘
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.container import ContainerSpec, Exit, SandboxError
from boilerhouse.embedded.kubelet.forkserver.client import Child, ForkServerClient
from boilerhouse.embedded.kubelet.forkserver.slots import CgroupSlot
from boilerhouse.embedded.kubelet.kernel.stdio import Stdio, until_ready
from boilerhouse.embedded.kubelet.logs.logpump import Output, Pump
from boilerhouse.embedded.kubelet.sandbox.execing import Program
from boilerhouse.embedded.kubelet.sandbox.execsession import CgroupSession, Session, TreeSession
from boilerhouse.platform.processes import freezing

# A pipe may have been handed to a process that lives on elsewhere; then the log is cut here.
_DRAIN_SECONDS = 1.0


class Container:
    """A started container, until `wait` has returned."""

    def __init__(
        self,
        spec: ContainerSpec,
        fork_server: ForkServerClient,
        bwrap: Child,
        init: int,
        enter: dict[str, Any],
        slot: CgroupSlot,
    ) -> None:
        self.spec = spec
        self._fork_server = fork_server
        self._bwrap = bwrap
        self._init = init
        self._enter = enter
        self.slot = slot
        self._init_fd = os.pidfd_open(init)
        self._namespace = os.stat(f"/proc/{init}/ns/pid").st_ino  # noqa: PTH116
        self._program: Program | None = None
        self._exit: asyncio.Task[Exit] | None = None
        self._drained = asyncio.Event()
        self._entering = 0  # programs on their way in, which are in no list yet
        self._none_enters = asyncio.Event()
        self._none_enters.set()
        self.frozen = False
        self._exec_allowed = True
        self._killed_for_memory = False
        self._background: set[asyncio.Future[None]] = set()
        self._started_at: datetime | None = None

    async def stand(self) -> None:
        """Have the container's own process there, at the gate; `run` lets it go."""
        self._program = await Program.stand(self._fork_server, *self._own())

    @property
    def stands(self) -> bool:
        """Whether its own process waits at the gate, in a sandbox that is whole."""
        program = self._program
        return program is not None and program.stands and not self._bwrap.status.done()

    def _own(self) -> tuple[dict[str, Any], Stdio]:
        spec = self.spec
        request = {
            **self._enter,
            "argv": list(spec.argv),
            "tty": spec.tty,
            "seed": self.slot.preforked(),
            "env": self._environment({}, tty=spec.tty),
        }
        return request, self._stdio(tty=spec.tty, stdin=spec.stdin)

    def _stdio(self, *, tty: bool, stdin: bool) -> Stdio:
        return Stdio.open(tty=tty, stdin=stdin, owner=(self._enter["uid"], self._enter["gid"]))

    def _environment(self, more: Mapping[str, str], *, tty: bool) -> dict[str, str]:
        """Return the container's variables and these; on a terminal, of what kind that is."""
        terminal = {"TERM": "xterm"} if tty else {}
        return {**terminal, **self._enter["env"], **more}

    async def run(
        self,
        output: Callable[[Stdio, Callable[[], None]], Output],
        pump: Pump,
        clock: Clock,
    ) -> None:
        """Start the container's own process, or let it go if it stands already."""
        if self._program is None:
            self._program = await Program.start(self._fork_server, *self._own())
        else:
            await self._program.go()
        stdio = self._program.stdio
        self._started_at = clock.now()
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.call_soon_threadsafe(self._drained.set)

        carried = output(stdio, ended)
        if self._program.start_error is not None:
            carried.sink.write("stderr", self._program.start_error.encode() + b"\n")
        pump.add(carried)
        self._exit = asyncio.create_task(self._ended(self._program, pump, carried))

    async def _ended(self, program: Program, pump: Pump, output: Output) -> Exit:
        code = await program.wait()
        await self.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), _DRAIN_SECONDS)
        pump.cut(output)
        await self._drained.wait()
        program.stdio.close()
        await program.close()
        os.close(self._init_fd)
        while self._background:
            await asyncio.wait(self._background)
        oom_killed = self._killed_for_memory or self.slot.group.oom_killed()
        if program.start_error is not None:
            return Exit(code, start_error=program.start_error)
        number = code - 128 if 128 < code < 128 + signal.NSIG else None
        return Exit(code, number, oom_killed)

    async def abandon(self) -> None:
        """End a container whose own process could not be started, or never was let go."""
        await self.kill()
        if self._program is not None:
            await self._program.close()
        os.close(self._init_fd)

    def on_exit(self, call: Callable[[Container], object]) -> None:
        assert self._exit is not None
        self._exit.add_done_callback(lambda _: call(self))

    @property
    def pid(self) -> int:
        assert self._program is not None
        return self._program.pid

    @property
    def started_at(self) -> datetime:
        assert self._started_at is not None
        return self._started_at

    @property
    def start_error(self) -> str | None:
        """Why its program never ran, None if it did: known from the start, `wait` says it too."""
        assert self._program is not None
        return self._program.start_error

    async def wait(self) -> Exit:
        """Wait for the container's own process; what it left behind is killed by then, its output
        is in the log. May be awaited any number of times."""
        assert self._exit is not None
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Signal the container's own process; SIGKILL takes every process of the container."""
        if number == signal.SIGKILL:
            if self._freezer_keeps_the_killed:
                self._do_later(self._freezer_kill)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        elif self._program is not None:
            self._program.signal(number)

    def kill_for_memory(self) -> None:
        """Kill every process of the container, which uses more memory than it may."""
        self._killed_for_memory = True
        self.signal(signal.SIGKILL)

    async def kill(self) -> None:
        """Kill every process of the container and wait until they are gone."""
        if self._freezer_keeps_the_killed:
            await freezing.to_its_end(self._freezer_kill)
        # The death of pid 1 kills all others; its descriptor is readable when they are buried.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        self._bwrap.signal(signal.SIGKILL)
        await asyncio.shield(self._bwrap.status)
        await self._init_gone()
        self._bwrap.release()

    @property
    def _freezer_keeps_the_killed(self) -> bool:
        """Whether a kill has no effect until the container is thawed: cgroups v1."""
        freezer = self.slot.group.freezer
        return self.frozen and freezer is not None and not freezer.frees_the_killed

    def _freezer_kill(self) -> None:
        if self.slot.group.freezer is not None:
            self.slot.group.freezer.kill_all()

    def _do_later(self, work: Callable[[], None]) -> None:
        """Do what may wait for the kernel beside everything else, before the container is over."""
        doing = asyncio.ensure_future(asyncio.to_thread(work))
        self._background.add(doing)
        doing.add_done_callback(self._background.discard)

    async def _init_gone(self) -> None:
        watched = os.dup(self._init_fd)
        try:
            await until_ready(watched)
        finally:
            os.close(watched)

    def processes(self) -> list[int]:
        """Return the processes in the container, by their number on the machine."""
        return [pid for pid in self._candidates() if self._is_here(pid)]

    def _candidates(self) -> list[int]:
        """Return who may be in the container, as they are listed."""
        listed = self.slot.group.processes()
        if listed is None:
            everybody = os.listdir("/proc")  # noqa: PTH208  thousands of names, no need for paths
            listed = [int(entry) for entry in everybody if entry.isdecimal()]
        return [pid for pid in listed if pid != self._init]

    def _here_or_gone(self) -> list[int]:
        return [pid for pid in self._candidates() if self._is_here(pid) is not False]

    def _is_here(self, pid: int) -> bool | None:
        """Tell whether a process is in the container; None if it has ended meanwhile."""
        try:
            return os.stat(f"/proc/{pid}/ns/pid").st_ino == self._namespace  # noqa: PTH116
        except PermissionError:
            return False
        except OSError:
            return None

    async def freeze(self, *, allow_exec: bool = False) -> None:
        """Stop every process of the container; on return none runs, whatever it forked.

        Until `thaw` no program can be started in it, unless `allow_exec`: then programs may be
        started and run, and are stopped by a freeze without it. Raises `Restless` if it takes too
        long.
        """
        if allow_exec and self.frozen and self._exec_allowed:
            return  # who came since is a command, and may run
        self.frozen, self._exec_allowed = True, False
        try:
            await self._none_enters.wait()
            with self._unhindered() as let_run:
                if (freezer := self.slot.group.freezer) is not None:
                    await freezer.freeze(let_run)
                else:
                    await freezing.freeze(self._here_or_gone, self._signal, let_run)
        except BaseException:
            self.frozen, self._exec_allowed = False, True
            raise
        self._exec_allowed = allow_exec

    @contextlib.contextmanager
    def _unhindered(self) -> Iterator[Callable[[], None]]:
        """Yield what lets the container's processes come as far as they stop.

        Who has used up its share of the processor is not run for the rest of a tenth of a second,
        and cannot stop before that.
        """
        group, share = self.slot.group, self.spec.cpu
        lifted = False

        def let_run() -> None:
            nonlocal lifted
            if share is not None:
                lifted = True
                with contextlib.suppress(OSError):  # it has ended, and its group with it
                    group.limit_cpu(None)

        try:
            yield let_run
        finally:
            if lifted:
                with contextlib.suppress(OSError):
                    group.limit_cpu(share)

    def thaw(self) -> None:
        self.frozen, self._exec_allowed = False, True
        if (freezer := self.slot.group.freezer) is not None:
            freezer.thaw()
        else:
            freezing.thaw(self.processes, self._signal)

    def _signal(self, pid: int, number: int) -> None:
        """Signal a process if it is still one of ours: its number may have changed hands."""
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            try:
                if self._is_here(pid):
                    signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)

    async def write(self, data: bytes) -> None:
        """Send to the standard input of a container started with `stdin`."""
        if self._program is not None:
            await self._program.write(data)

    def close_stdin(self) -> None:
        if self._program is not None:
            self._program.close_stdin()

    def resize(self, columns: int, rows: int) -> None:
        if self._program is not None:
            self._program.resize(columns, rows)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        tty: bool = False,
        stdin: bool = False,
    ) -> Program:
        """Run a program in the container, under the same restrictions and, unless told otherwise,
        with its environment and working directory. Raises `SandboxError` if it has ended."""
        if self._exit is None or self._exit.done() or self._bwrap.status.done():
            raise SandboxError(f"container {self.spec.name} is not running")
        if not self._exec_allowed:
            words = "is halted: it is being saved or restored"
            raise SandboxError(f"container {self.spec.name} {words}")
        request = {**self._enter, "argv": list(argv), "tty": tty}
        request["env"] = self._environment(env or {}, tty=tty)
        if workdir is not None:
            request["cwd"] = workdir
        stdio = self._stdio(tty=tty, stdin=stdin)
        session = self._session()
        if isinstance(session, CgroupSession):
            request["session"] = str(session.directory)
            request["cgroups"] = [str(directory) for directory in self.slot.group.shared]
        self._entering += 1
        self._none_enters.clear()
        starting = asyncio.create_task(Program.start(self._fork_server, request, stdio, session))
        starting.add_done_callback(self._entered)
        try:
            # Not to be cut off half-way: who is on its way in must be known of until it is there.
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._unwanted)
            raise

    def _session(self) -> Session:
        freezer = self.slot.group.freezer
        if freezer is not None:
            return CgroupSession(freezer, self._do_later)
        return TreeSession(self.processes, self._signal)

    def _entered(self, starting: asyncio.Task[Program]) -> None:
        self._entering -= 1
        if not self._entering:
            self._none_enters.set()

    def _unwanted(self, starting: asyncio.Task[Program]) -> None:
        """End a command whose caller left before it had begun."""
        if not starting.cancelled() and starting.exception() is None:
            closing = asyncio.create_task(starting.result().close())
            self._background.add(closing)
            closing.add_done_callback(self._background.discard)
