"""The zygote (zygote.py), seen from the process that has it.

Zygote.start ─► python -c … ─► it says that it is there
Zygote.fork ─► stdin, stdout, stderr ─► Forked: kill(), wait()

A zygote that dies takes its workers with it. Whoever waits for one hears of that, and the next job
gets a worker by other means.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

from boilerhouse.platform.archive.wire import ENDED, READY, SAID, STARTED, STREAMS

PIECE = 256 << 10
_PATIENCE = 30.0  # seconds for a Python to start, on whatever machine
_LOST = -int(signal.SIGKILL)  # how a worker ends whose zygote has died


class NotForked(Exception):
    """No worker can be forked; it says why."""


class _Child:
    """A worker's number and its end."""

    def __init__(self, pid: int, pidfd: int, ended: asyncio.Future[int]) -> None:
        self.pid = pid
        self.ended = ended
        self._pidfd = pidfd

    def kill(self) -> None:
        if self._pidfd < 0:
            raise ProcessLookupError(self.pid)
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def has_ended(self, code: int) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self.ended.set_result(code)


class _ToItsEnd(asyncio.StreamReaderProtocol):
    """Feeds a reader, and closes the stream when there is no more."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


class _Streams:
    """Our ends of a worker's streams, and `theirs` until it has them.

    Sockets, whose numbers are closed once: of a pipe that it was given, uvloop closes the number
    twice, and by then that may be the number of a file that another thread has just opened.
    """

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(STREAMS)]
        self._ours = [ours for ours, _ in pairs]
        self.theirs = [theirs for _, theirs in pairs]
        self._made: list[tuple[asyncio.Transport, _ToItsEnd]] = []
        self._begun = 0  # with the loop, which closes what it cannot use

    async def open(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]:
        loop = asyncio.get_running_loop()
        readers = [asyncio.StreamReader(limit=PIECE) for _ in self._ours]
        for ours, reader in zip(self._ours, readers, strict=True):
            ours.setblocking(False)
            self._begun += 1
            made = await loop.create_unix_connection(partial(_ToItsEnd, reader), sock=ours)
            self._made.append(made)
        return asyncio.StreamWriter(*self._made[0], readers[0], loop), readers[1], readers[2]

    def give(self) -> None:
        """Close theirs: the worker has them by now, or never will."""
        for theirs in self.theirs:
            theirs.close()

    def close(self) -> None:
        """Close ours."""
        for transport, _ in self._made:
            transport.close()
        for ours in self._ours[self._begun :]:
            ours.close()


class Forked:
    """A worker that waits for its job on stdin."""

    def __init__(
        self,
        child: _Child,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.pid = child.pid
        self.kill = child.kill
        self._ended = child.ended

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)


class Zygote:
    """A running zygote. Made by `start`, ended by `close`."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._asked: deque[asyncio.Future[_Child]] = deque()  # answered in this order
        self._children: dict[int, _Child] = {}
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self.died = False
        self._loop.add_reader(channel, self._hear)

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def start(cls, command: Sequence[str]) -> Zygote:
        """Start one. It is killed when the thread that runs this loop ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            process = subprocess.Popen(  # noqa: ASYNC220  from this very thread; returns at once
                [*command, str(os.getpid()), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},
                cwd="/",
                # Ctrl-C reaches the whole group of a terminal: it is ours to end it, and in order.
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise NotForked(f"no Python can be started: {error}") from error
        finally:
            theirs.close()
        zygote = cls(process, ours)
        try:
            async with asyncio.timeout(_PATIENCE):
                await zygote._ready
        except TimeoutError:
            await zygote.close()
            raise NotForked(f"the zygote was not there after {_PATIENCE:g} s") from None
        except BaseException:
            await zygote.close()
            raise
        return zygote

    async def fork(self) -> Forked:
        """Return a new worker; `NotForked` if there can be none."""
        try:
            streams = _Streams()
        except OSError as error:
            raise NotForked(f"no streams can be made: {error}") from error
        try:
            ours = await streams.open()
            if self.died:
                raise NotForked("the zygote has died")
            answer: asyncio.Future[_Child] = self._loop.create_future()
            socket.send_fds(self._channel, [b"f"], [theirs.fileno() for theirs in streams.theirs])
            self._asked.append(answer)
            return Forked(await answer, *ours)
        except OSError as error:
            streams.close()
            raise NotForked(f"the zygote cannot be asked: {error}") from error
        except BaseException:
            streams.close()  # a worker that comes too late finds that nobody needs it
            raise
        finally:
            streams.give()

    async def close(self) -> None:
        """End it, and every worker that it has."""
        self._lost()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def _hear(self) -> None:
        try:
            told, files, _, _ = socket.recv_fds(self._channel, SAID.size, 1)
        except BlockingIOError:
            return
        except OSError:
            told = b""
        if not told:
            self._lost()
            return
        kind, pid, number = SAID.unpack(told)
        if kind == READY:
            self._ready.set_result(None)
        elif kind == ENDED:
            self._children.pop(pid).has_ended(number)
        else:
            answer = self._asked.popleft()
            if kind == STARTED and not files:
                # No descriptor was free for it here, so nobody could wait for it or end it later.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._children[pid] = _Child(pid, -1, self._loop.create_future())
                if not answer.done():
                    answer.set_exception(NotForked(os.strerror(errno.EMFILE)))
            elif kind == STARTED:
                child = self._children[pid] = _Child(pid, files[0], self._loop.create_future())
                if not answer.done():
                    answer.set_result(child)
            elif not answer.done():
                answer.set_exception(NotForked(f"the zygote cannot fork: {os.strerror(number)}"))

    def _lost(self) -> None:
        """Tell everybody who waits for it, or for one of its workers."""
        if self.died:
            return
        self.died = True
        self._loop.remove_reader(self._channel)
        self._channel.close()
        waited_for: list[asyncio.Future[Any]] = [self._ready, *self._asked]
        for waiting in waited_for:
            if not waiting.done():
                waiting.set_exception(NotForked("the zygote has died"))
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.kill()  # it dies with its zygote anyway: this is only sooner
            child.has_ended(_LOST)
        self._asked.clear()
        self._children.clear()
