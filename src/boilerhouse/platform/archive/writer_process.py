"""The worker's second process, which writes batches beside the first.

    WriterProcess.send ─► where a batch starts, its parts, its descriptors ─► serve ─► write
    WriterProcess.hear ◄── which batch, how many of its parts were written, why not more ──┘

It is forked from the confined worker: it has what that has and nothing more. It dies with it, and
nobody hears that the worker has ended before that, since it holds the worker's streams open.
"""

from __future__ import annotations

import _socket
import marshal
import os
import signal
import struct
from mmap import mmap

from boilerhouse.platform.archive import confine
from boilerhouse.platform.archive.batch import OPEN, Batch, write
from boilerhouse.platform.archive.failures import writer_process_died

_MESSAGE = 128 << 10  # a batch without its contents: names have 255 bytes at most
_DONE = struct.Struct("=QII")
_NUMBER = struct.Struct("=i")


class WriterProcess:
    """That process, seen from the first."""

    def __init__(self, contents: mmap) -> None:
        first = os.getpid()
        # Not through `socket`: importing that takes as long as a small restore.
        self._channel, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if not self._pid:
            try:
                confine.die_with_parent(first)
                self._channel.close()
                _serve(theirs, contents)
            finally:
                os._exit(1)  # the first misses it, and says so
        theirs.close()

    def send(self, batch: Batch) -> None:
        """Have a batch written."""
        told = marshal.dumps((batch.start, batch.parts))
        rights = b"".join(map(_NUMBER.pack, batch.descriptors()))
        try:
            self._channel.sendmsg([told], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise writer_process_died() from error

    def hear(self, wait: bool) -> tuple[int, int, int] | None:
        """Return which batch is done, how many of its parts, and the error; None: none is yet."""
        try:
            told = self._channel.recv(_DONE.size, 0 if wait else _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError as error:
            raise writer_process_died() from error
        if not told:
            raise writer_process_died()
        start, done, number = _DONE.unpack(told)
        return start, done, number

    def kill(self) -> None:
        """End it, whatever it does."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._channel.close()


def _serve(channel: _socket.socket, contents: mmap) -> None:
    room = _socket.CMSG_SPACE(OPEN * _NUMBER.size)
    while True:
        told, passed, _, _ = channel.recvmsg(_MESSAGE, room)
        if not told:
            return
        start, parts = marshal.loads(told)  # noqa: S302  the process that this is a fork of wrote it
        rights = b"".join(packed for _, _, packed in passed)
        whole = len(rights) // _NUMBER.size * _NUMBER.size
        descriptors = [number for (number,) in _NUMBER.iter_unpack(rights[:whole])]
        done, error = write(contents, descriptors, parts)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(_DONE.pack(start, done, error))
