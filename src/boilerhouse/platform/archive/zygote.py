"""The process that workers are forked from, where many instances share one parent.

Workers ─► socket: stdin, stdout, stderr ─► zygote ─► fork ─► worker.main
       ◄── the worker's pidfd; later how it ended ──┘

To start a Python takes longer than to save a small instance, and to fork a large server holds up
its event loop while its page tables are copied. This process has imported what a job needs and
nothing else, so a worker is there within a millisecond, and costs its server a message.

One thread, no state but the numbers of its children, and no way to be asked for anything else. It
dies with its parent, and its workers with it.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import socket
import traceback
from typing import NoReturn

from boilerhouse.platform.archive import confine, worker
from boilerhouse.platform.archive.wire import ENDED, READY, REFUSED, SAID, STARTED, STREAMS

_FILES = 1 << 16


def main(parent: str, channel: str) -> None:
    """Fork a worker for every message on the socket of this number, until it is closed."""
    confine.die_with_parent(int(parent))
    worker.import_all()
    gc.freeze()  # what is here stays: workers need not look at it, which would copy it
    opened = socket.socket(fileno=int(channel))
    opened.send(SAID.pack(READY, 0, 0))
    _serve(opened)


def _serve(channel: socket.socket) -> None:
    children: dict[int, int] = {}  # numbers by pidfd
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready in children:
                waiting.unregister(ready)
                _, status = os.waitpid(children[ready], 0)
                code = os.waitstatus_to_exitcode(status)
                channel.send(SAID.pack(ENDED, children.pop(ready), code))
                os.close(ready)
                continue
            asked, streams, _, _ = socket.recv_fds(channel, 1, STREAMS)
            if not asked:
                return
            try:
                if len(streams) < STREAMS:
                    raise OSError(errno.EMFILE, "not all of them fit in")
                pid = os.fork() or _work(streams)
            except OSError as error:
                channel.send(SAID.pack(REFUSED, 0, error.errno or 0))
                continue
            finally:
                for stream in streams:
                    os.close(stream)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = pid
            waiting.register(pidfd, select.POLLIN)
            socket.send_fds(channel, [SAID.pack(STARTED, pid, 0)], [pidfd])


def _work(streams: list[int]) -> NoReturn:
    """Be a worker: with these streams, and nothing else of the zygote's."""
    zygote = os.getppid()
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(STREAMS, _FILES)
        worker.main(str(zygote))
    except BaseException:  # noqa: BLE001  it must not go on as a second zygote, whatever happens
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(1)
