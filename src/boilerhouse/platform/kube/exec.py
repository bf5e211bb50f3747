"""The channel protocol of exec and attach: several streams and an exit code in one WebSocket.

Socket ──► Session (read, write, resize, close stdin) ──► exit code

Each message begins with one byte, its channel: 0 stdin, 1 stdout, 2 stderr, 3 the final `Status`,
4 the size of the terminal. Version 5 adds 255, "this channel ends", without which a command that
reads its input to the end would never see that end; version 4 cannot say it.

Nothing is buffered here. Who does not read makes the command wait, through the server's buffers and
the kernel's, as a pipe would.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import msgspec

from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    InternalError,
    Timeout,
    Unavailable,
)
from boilerhouse.platform.kube.wire import Socket

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
PROTOCOLS = (V5, V4)
PIECE = 32 << 10
AFTER_STATUS = 5.0  # seconds for output that was overtaken by the Status on its way to us


class Channel(IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4
    CLOSE = 255


class Output(NamedTuple):
    """A piece of what the command wrote: `channel` is STDOUT or STDERR."""

    channel: Channel
    data: bytes


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. `truncated` means that it wrote more than was kept."""

    stdout: bytes
    stderr: bytes
    exit_code: int
    truncated: bool = False


class CommandTimeout(Timeout):
    """The command did not end in time; here is what was kept of what it wrote until then."""

    def __init__(self, message: str, stdout: bytes, stderr: bytes, truncated: bool = False) -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr
        self.truncated = truncated


class Session:
    """A running command. One task may write while another reads.

    Leaving the context it came from hangs up; whether that ends the command is up to the runtime.
    """

    def __init__(self, socket: Socket) -> None:
        if socket.subprotocol not in PROTOCOLS:
            raise InternalError(
                f"exec: the server speaks {socket.subprotocol or 'no channel protocol'}, "
                f"not one of {', '.join(PROTOCOLS)}"
            )
        self.protocol: str = socket.subprotocol
        self.exit_code: int | None = None
        self._socket = socket

    async def read(self) -> Output | None:
        """Return the next output; None once the command has ended and `exit_code` is known.

        Raises `Unavailable` if the connection ends before that, and the server's own error if the
        command could not be run at all.
        """
        while True:
            message = await self._receive()
            if message is None:
                if self.exit_code is None:
                    raise Unavailable("exec: the connection ended before the command did")
                return None
            if len(message) < 2:
                continue  # servers announce their channels with empty messages
            channel, data = message[0], message[1:]
            if channel == Channel.STATUS:
                self.exit_code = exit_code(data)
            elif channel in (Channel.STDOUT, Channel.STDERR):
                return Output(Channel(channel), data)

    async def write(self, data: bytes) -> None:
        """Send to the command's stdin; waits while it does not read."""
        for start in range(0, len(data), PIECE):
            await self._send(Channel.STDIN, data[start : start + PIECE])

    async def close_stdin(self) -> None:
        """Let the command see the end of its input. Refused where the protocol cannot say it."""
        if self.protocol != V5:
            raise BadRequest(f"exec: {self.protocol} cannot end stdin, which needs {V5}")
        await self._send(Channel.CLOSE, bytes([Channel.STDIN]))

    async def resize(self, width: int, height: int) -> None:
        """Tell the command's terminal its size."""
        size = {"Width": width, "Height": height}
        await self._send(Channel.RESIZE, msgspec.json.encode(size))

    async def wait(self) -> int:
        """Drop the rest of the output and return the exit code."""
        while await self.read() is not None:
            pass
        assert self.exit_code is not None
        return self.exit_code

    async def _send(self, channel: Channel, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)

    async def _receive(self) -> bytes | None:
        if self.exit_code is None:
            return await self._socket.receive()
        # The server copies its streams side by side, so the Status may come before the last
        # output. It hangs up after both; if it does not, we do.
        try:
            async with asyncio.timeout(AFTER_STATUS):
                return await self._socket.receive()
        except (TimeoutError, Unavailable):
            return None


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Status(msgspec.Struct):
    status: str = ""
    reason: str = ""
    details: _Details | None = None


def exit_code(body: bytes) -> int:
    """Read the exit code out of the final Status, or raise what it says instead."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError as error:
        raise InternalError(f"exec: the final status is not a Status: {error}") from error
    if status.status == "Success":
        return 0
    if status.reason == "NonZeroExitCode":
        for cause in (status.details or _Details()).causes:
            if cause.reason == "ExitCode" and cause.message.lstrip("-").isdigit():
                return int(cause.message)
    raise ApiError.parse(500, body)


async def run(
    opening: AbstractAsyncContextManager[Session],
    *,
    stdin: bytes | None,
    timeout: float,
    limit: int,
) -> Result:
    """Run a command to its end, keeping at most `limit` bytes of each stream.

    More output than that is read and dropped, so that the command can end.
    """
    kept = {Channel.STDOUT: bytearray(), Channel.STDERR: bytearray()}
    truncated = False
    try:
        async with asyncio.timeout(timeout), opening as session:
            feeding = None
            if stdin is not None:
                if session.protocol != V5:
                    raise BadRequest(f"exec: {session.protocol} cannot end stdin: {V5} is needed")
                feeding = asyncio.create_task(_feed(session, stdin))
            try:
                while (output := await session.read()) is not None:
                    room = limit - len(kept[output.channel])
                    truncated |= len(output.data) > room
                    kept[output.channel] += output.data[: max(room, 0)]
            finally:
                if feeding is not None:
                    feeding.cancel()
                    # A command may end without reading its input: how it ended is what counts.
                    await asyncio.gather(feeding, return_exceptions=True)
            assert session.exit_code is not None
            stdout, stderr = (bytes(part) for part in kept.values())
            return Result(stdout, stderr, session.exit_code, truncated)
    except TimeoutError as error:
        late = f"exec: the command did not end within {timeout:g} s"
        stdout, stderr = (bytes(part) for part in kept.values())
        raise CommandTimeout(late, stdout, stderr, truncated) from error


async def _feed(session: Session, stdin: bytes) -> None:
    await session.write(stdin)
    await session.close_stdin()
