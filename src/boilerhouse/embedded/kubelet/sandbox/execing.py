"""A program run in a container beside its own process: kubectl exec, hooks, exec probes.

Running.exec ─► Program.start ─► fork server ─► entering.py ─► the program
Standby      ─► Program.stand ─► at its gate ─► Program.go ─────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from typing import Any, Literal

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.forkserver.client import Child, ForkServerClient
from boilerhouse.embedded.kubelet.kernel.stdio import Stdio
from boilerhouse.embedded.kubelet.sandbox.execsession import Session

_MISSING = (errno.ENOENT, errno.ENOTDIR)


class Program:
    """A process in a container. A command, beside the container's own process, has a `session`."""

    def __init__(
        self,
        child: Child,
        stdio: Stdio,
        name: str,
        gate: int = -1,
        session: Session | None = None,
    ) -> None:
        self.stdio = stdio
        self._child = child
        self._name = name
        self._gate = gate
        self._session = session
        self.start_error: str | None = None
        self._said = b""
        self._judge()

    def _judge(self) -> None:
        if self._child.failure:
            self.start_error = f"{self._name}: {_words(self._child.failure)}"
            self._said = self.start_error.encode() + b"\n"

    @classmethod
    async def start(
        cls,
        fork_server: ForkServerClient,
        request: dict[str, Any],
        stdio: Stdio,
        session: Session | None = None,
    ) -> Program:
        """Start it. A program that cannot be run is no error here: it ends at once, saying why."""
        try:
            child = await fork_server.start_process({**request, "op": "enter"}, stdio.theirs)
        except BaseException:
            stdio.close()
            if session is not None:
                session.release()
            raise
        program = cls(child, stdio, request["argv"][0], session=session)
        await program._take_streams()
        return program

    @classmethod
    async def stand(
        cls, fork_server: ForkServerClient, request: dict[str, Any], stdio: Stdio
    ) -> Program:
        """Take it into the container, where it waits for `go`; nothing of it has run until then."""
        try:
            theirs, gate = os.pipe()
        except OSError:
            stdio.close()
            raise
        try:
            asked = {**request, "op": "enter", "gated": True}
            child = await fork_server.start_process(asked, [*stdio.theirs, theirs])
        except BaseException:
            stdio.close()
            os.close(gate)
            raise
        finally:
            os.close(theirs)
        program = cls(child, stdio, request["argv"][0], gate)
        await program._take_streams()
        return program

    async def _take_streams(self) -> None:
        """Take our ends; a program that cannot be heard or spoken to is ended, not left silent."""
        try:
            self.stdio.started()
        except OSError as error:
            await self.close()
            words = f"{self._name}: its terminal cannot be taken: {error.strerror}"
            raise SandboxError(words) from error

    @property
    def stands(self) -> bool:
        """Whether it is there and waits for `go`."""
        return self._gate >= 0 and not self._child.status.done()

    async def go(self) -> None:
        """Let it run; what cannot be run ends at once, saying why."""
        with contextlib.suppress(BrokenPipeError):  # it has ended at the gate
            os.write(self._gate, b"g")
        self._close_gate()
        if self._child.passed is not None:
            self._child.failure = await asyncio.shield(self._child.passed)
            self._judge()

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    @property
    def pid(self) -> int:
        return self._child.pid

    async def write(self, data: bytes) -> None:
        """Send to standard input, waiting while it is full. After its reader is gone: no effect."""
        if self.stdio.input is not None:
            await self.stdio.input.write(data)

    def close_stdin(self) -> None:
        """End standard input (on a terminal: nothing to end, so nothing happens)."""
        self.stdio.close_input()

    async def read(self, stream: Literal["stdout", "stderr"]) -> bytes:
        """Return the next bytes, b"" at the end. A terminal has only stdout."""
        if self._said and stream == ("stdout" if self.stdio.terminal else "stderr"):
            said, self._said = self._said, b""
            return said
        end = self.stdio.output if stream == "stdout" else self.stdio.error
        return b"" if end is None else await end.read()

    def resize(self, columns: int, rows: int) -> None:
        self.stdio.resize(columns, rows)

    def signal(self, number: int) -> None:
        self._child.signal(number)

    async def wait(self) -> int:
        """Return the exit code: 128 + n for a signal, 127 for a missing program, 126 for one that
        cannot be executed (the reason is then on stderr)."""
        status = await asyncio.shield(self._child.status)
        if self._child.failure:
            return 127 if self._child.failure in _MISSING else 126
        code = os.waitstatus_to_exitcode(status)
        return 128 - code if code < 0 else code

    async def close(self) -> None:
        """Kill it if it runs, with all it started; what outlived it is the container's."""
        self._close_gate()
        self.stdio.close()
        try:
            if not self._child.status.done():
                if self._session is not None:
                    await self._session.kill(self._child.pid)
                self._child.signal(signal.SIGKILL, group=True)
            await asyncio.shield(self._child.status)
        finally:
            self._child.release()
            if self._session is not None:
                self._session.release()
                self._session = None


def _words(failure: int) -> str:
    return "not found" if failure == errno.ENOENT else os.strerror(failure)
