"""The kubelet's side of the fork server: requests as coroutines, exits as futures.

    sandbox.py, process.py, netns.py ─► ForkServerClient ─► socket pair ─► forkserver.py

If the fork server dies, all containers die with it: it is their ancestor. Every pending request
then fails and `died` resolves, which ends the kubelet; there is nothing left to supervise.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boilerhouse
from boilerhouse.embedded.kubelet.container import NEEDS, SandboxError
from boilerhouse.embedded.kubelet.forkserver import forkserver, forkwire
from boilerhouse.embedded.kubelet.forkserver.bwrap import Bubblewrap
from boilerhouse.embedded.kubelet.kernel.stdio import until_ready

_PROGRAM = "import sys; sys.path.append({path!r}); from {module} import main; main(sys.argv[1:])"
_START_SECONDS = 15.0
# A request waits while this many are on their way.
_IN_FLIGHT = 64
_DIED = "the fork server has died"
_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9

_Reply = tuple[dict[str, Any], list[int]]


@dataclass(slots=True)
class Child:
    """A process that the fork server started. `failure` is set if its program could not be run.

    `passed`: of one that waits at a gate, its `failure` once it is past it, or has ended there.
    """

    pid: int
    _pidfd: int
    status: asyncio.Future[int]  # as waitpid gives it
    failure: int
    passed: asyncio.Future[int] | None = None

    def signal(self, number: int, *, group: bool = False) -> None:
        """Signal the process if it is still there, or its group (where the kernel knows how to)."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            if group:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._pidfd, number, None, _PROCESS_GROUP)
            signal.pidfd_send_signal(self._pidfd, number)

    def release(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class ForkServerClient:
    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._replies: dict[int, asyncio.Future[_Reply]] = {}
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._passing: dict[int, asyncio.Future[int]] = {}
        self._room = asyncio.Semaphore(_IN_FLIGHT)
        # One at a time: the loop knows one waiter per socket, a second would replace it.
        self._sending = asyncio.Lock()
        self._closing = False
        self.died: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def start(cls, bwrap: Bubblewrap) -> ForkServerClient:
        """Start the fork server; only from the main thread: it dies with the thread that did."""
        if threading.current_thread() is not threading.main_thread():
            raise SandboxError("containers can be started only from the main thread")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        path = str(Path(boilerhouse.__file__).parent.parent)
        program = _PROGRAM.format(path=path, module=forkserver.__name__)
        arguments = [str(theirs.fileno()), str(bwrap.path), bwrap.libraries or ""]
        # No environment: nothing of ours is there for a tenant's first instructions to find.
        process = subprocess.Popen(  # noqa: ASYNC220  from this very thread; returns at once
            [os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", program, *arguments],  # noqa: ASYNC240
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        theirs.close()
        fork_server = cls(process, ours)
        try:
            await asyncio.wait_for(fork_server._greeting(), _START_SECONDS)
        except BaseException:
            fork_server.kill()
            raise
        fork_server._loop.add_reader(ours, fork_server._receive)
        return fork_server

    @property
    def pid(self) -> int:
        return self._process.pid

    async def _greeting(self) -> None:
        while True:
            with contextlib.suppress(BlockingIOError):
                received = forkwire.receive(self._channel)
                if received is None:
                    raise SandboxError("the fork server ended while it started")
                if "error" in received[0]:
                    why = received[0]["error"]
                    raise SandboxError(f"the fork server cannot start: {why} ({NEEDS})")
                return
            await until_ready(self._channel.fileno())

    async def request(self, message: dict[str, Any], fds: Sequence[int] = ()) -> _Reply:
        """Send a request and return the reply with its descriptors, which are the caller's now."""
        async with self._room:
            if self._closing or self.died.done():
                raise SandboxError("the fork server is closed" if self._closing else _DIED)
            self._number += 1
            number = self._number
            reply: asyncio.Future[_Reply] = self._loop.create_future()
            self._replies[number] = reply
            try:
                async with self._sending:
                    await self._send({**message, "id": number}, list(fds))
                received, given = await reply
            finally:
                self._replies.pop(number, None)
        if "error" in received:
            raise SandboxError(received["error"])
        return received, given

    async def start_process(self, message: dict[str, Any], fds: Sequence[int]) -> Child:
        """Send a request that starts a process."""
        asked = asyncio.ensure_future(self.request(message, fds))
        try:
            # Not to be cancelled half-way: what was asked for will be there.
            received, given = await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(self._unwanted)
            raise
        return self._child(received, given)

    @staticmethod
    def _child(received: dict[str, Any], given: list[int]) -> Child:
        pid = int(received["pid"])
        pidfd = given[0] if given else -1
        return Child(
            pid, pidfd, received["status"], int(received["failure"]), received.get("passing")
        )

    def _unwanted(self, asked: asyncio.Future[_Reply]) -> None:
        if not asked.cancelled() and asked.exception() is None:
            child = self._child(*asked.result())
            child.signal(signal.SIGKILL)
            child.release()

    async def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        while True:
            try:
                forkwire.send(self._channel, message, fds)
                return
            except BlockingIOError:
                await until_ready(self._channel.fileno(), write=True)
            except OSError as error:
                raise SandboxError(f"the fork server cannot be reached: {error}") from error

    def _receive(self) -> None:
        while True:
            try:
                received = forkwire.receive(self._channel)
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                self._lost()
                return
            message, fds = received
            if "exited" in message:
                self._exits.pop(message["exited"]).set_result(message["status"])
                continue
            if "passed" in message:
                self._passing.pop(message["passed"]).set_result(message["failure"])
                continue
            if "pid" in message:
                # Now, not when the reply is looked at: the exit may be the very next message.
                status: asyncio.Future[int] = self._loop.create_future()
                self._exits[message["pid"]] = message["status"] = status
                if message["gated"]:
                    passing: asyncio.Future[int] = self._loop.create_future()
                    self._passing[message["pid"]] = message["passing"] = passing
            if "truncated" in message:
                self._without_descriptors(message, fds)
                fds = []
            reply = self._replies.get(message["id"])
            if reply is None or reply.done():
                for fd in fds:
                    os.close(fd)
            else:
                reply.set_result((message, fds))

    @staticmethod
    def _without_descriptors(message: dict[str, Any], fds: list[int]) -> None:
        """Fail a request whose reply found no free descriptor here; end what it has started.

        Without its pidfd such a process could not be ended later. Its number is still its own: the
        fork server gives it back only with the exit that it tells of.
        """
        for fd in fds:
            os.close(fd)
        for key in ("pid", "seed"):
            if key in message:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(message[key], signal.SIGKILL)
        message["error"] = "this process has no file descriptor left (RLIMIT_NOFILE)"

    def _lost(self) -> None:
        self._loop.remove_reader(self._channel)
        if not self._closing and not self.died.done():
            self.died.set_result(None)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(SandboxError(_DIED))
        for future in self._exits.values():
            if not future.done():
                future.set_result(9)  # killed, by the death of its ancestor
        self._exits.clear()
        for passing in self._passing.values():
            if not passing.done():
                passing.set_result(0)
        self._passing.clear()

    async def close(self) -> None:
        """End the fork server, and with it whatever it still has; `died` is for other deaths."""
        self._closing = True
        if self._channel.fileno() >= 0:
            self._lost()
        self._channel.close()
        await asyncio.to_thread(self._process.wait)

    def kill(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()
