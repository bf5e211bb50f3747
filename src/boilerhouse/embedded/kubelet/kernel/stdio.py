"""A process's standard streams: the ends it gets, the ends we keep, and reading and writing ours.

Stdio.open ─► theirs ─► fork server ─► program
     └─► End: read, write (asyncio, only as fast as the other side)
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import struct
import termios

_CHUNK = 64 * 1024


class End:
    """Our end of a pipe or terminal. One reader or writer at a time."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._waiting: asyncio.Event | None = None

    def fileno(self) -> int:
        return self._fd

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end; a terminal whose program is gone is at its end."""
        while self._fd >= 0:
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                await self._ready(write=False)
            except OSError:
                break
        return b""

    async def write(self, data: bytes) -> None:
        """Write everything, waiting while the other side is slow; nothing once it is gone."""
        view = memoryview(data)
        while view and self._fd >= 0:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await self._ready(write=True)
            except OSError:
                return

    def detach(self) -> int:
        """Give the descriptor away."""
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        """Close; whoever waits finds the end."""
        if self._waiting is not None:
            self._waiting.set()
            self._unwatch()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _ready(self, *, write: bool) -> None:
        loop = asyncio.get_running_loop()
        waiting = self._waiting = asyncio.Event()
        (loop.add_writer if write else loop.add_reader)(self._fd, self._arrived)
        try:
            await waiting.wait()
        finally:
            if not waiting.is_set():
                self._unwatch()

    def _arrived(self) -> None:
        """Wake who waits. Its turn may come later, and until then the loop is not to tell again."""
        if self._waiting is not None:
            self._waiting.set()
        self._unwatch()

    def _unwatch(self) -> None:
        self._waiting = None
        if self._fd >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._fd)
            loop.remove_writer(self._fd)


async def until_ready(fd: int, *, write: bool = False) -> None:
    """Wait until a descriptor can be read, or written."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = loop.add_reader, loop.remove_reader
    if write:
        add, remove = loop.add_writer, loop.remove_writer

    def told() -> None:
        ready.set()
        remove(fd)  # whoever waits may be a while: once is enough

    add(fd, told)
    try:
        await ready.wait()
    finally:
        remove(fd)


def pipes(count: int, owner: tuple[int, int] | None = None) -> list[tuple[int, int]]:
    """Make so many pipes, or none: what was had before descriptors ran out is given back.

    Opening /proc/self/fd/1 is checked against its owner (uid, gid), as for any file.
    """
    made: list[tuple[int, int]] = []
    try:
        made.extend(os.pipe() for _ in range(count))
        if owner is not None and os.geteuid() == 0:  # else it is the tenant's already
            for _, writing in made:
                os.fchown(writing, *owner)
    except OSError:
        for ends in made:
            os.close(ends[0])
            os.close(ends[1])
        raise
    return made


class Stdio:
    """Pipes, or a terminal that the process makes in its own container and hands back."""

    def __init__(self, theirs: list[int]) -> None:
        self.theirs = theirs
        self.input: End | None = None
        self.output: End | None = None
        self.error: End | None = None
        self._channel: socket.socket | None = None
        self.terminal = False

    @classmethod
    def open(cls, *, tty: bool, stdin: bool, owner: tuple[int, int]) -> Stdio:
        """Make them. Pipes belong to `owner` (uid, gid), so that `/dev/stdout` can be opened."""
        if tty:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            made = cls([theirs.detach()])
            made.terminal, made._channel = True, ours
            return made
        (out, their_out), (err, their_err), *third = pipes(3 if stdin else 2, owner)
        made = cls([their_out, their_err])
        made.output, made.error = End(out), End(err)
        if third:
            reading, writing = third[0]
            made.input = End(writing)
        else:
            try:
                reading = os.open("/dev/null", os.O_RDONLY)
            except OSError:
                made.close()
                raise
        made.theirs.insert(0, reading)
        return made

    def started(self) -> None:
        """Let go of the other side's ends; take the terminal, which the process has sent by now.

        Raises OSError if it cannot be taken: no descriptor is left here.
        """
        self.release()
        if self._channel is None:
            return
        try:
            _, fds, _, _ = socket.recv_fds(self._channel, 1, 1)
        finally:
            self._channel.close()  # before the terminal is duplicated: its number may be the last
            self._channel = None
        if not fds:  # the kernel drops what it finds no room for
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        os.set_inheritable(fds[0], False)
        self.output = End(fds[0])
        self.input = End(os.dup(fds[0]))

    def release(self) -> None:
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []

    def resize(self, columns: int, rows: int) -> None:
        if self.terminal and self.output is not None and self.output.fileno() >= 0:
            size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
            fcntl.ioctl(self.output.fileno(), termios.TIOCSWINSZ, size)

    def close_input(self) -> None:
        """End the input. On a terminal the end is a character (Ctrl-D), for the client to send."""
        if self.input is not None and not self.terminal:
            self.input.close()

    def close(self) -> None:
        self.release()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        for end in (self.input, self.output, self.error):
            if end is not None:
                end.close()
