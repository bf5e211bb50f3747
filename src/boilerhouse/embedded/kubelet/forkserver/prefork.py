"""Preforked processes: they wait in a container's cgroup for what they will be told to become.

    Prefork.fork ─► fork ─► joins its cgroup ─► waits ─► request ─► staging.py | entering.py

Joining a cgroup blocks for an RCU grace period (10 to 20 ms), a third of a start. So that is done
before there is anything to start. A process in a cgroup begins its children there at no cost, but
they would have to be begun by it: hence one that waits for each that will be needed.

Whoever waits holds nothing of the fork server's but what it is made with, and goes with it.
This runs in the fork server: only the standard library may be imported.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from boilerhouse.embedded.kubelet.forkserver.forkwire import receive, send
from boilerhouse.embedded.kubelet.kernel import entering, linux

_FILES = 1 << 20

Act = Callable[[dict[str, Any], list[int]], None]
Fork = Callable[[Callable[[], None]], int]


class Prefork:
    """Those that wait, by pid. `kept` are the descriptors that they need to become something."""

    def __init__(self, kept: Iterable[int]) -> None:
        self._kept = tuple(kept)
        self._channels: dict[int, socket.socket] = {}

    def fork(self, cgroups: list[str], act: Act, fork: Fork) -> int:
        """Begin one that will `act` once; return its pid."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            parent = os.getpid()
            pid = fork(lambda: _wait(cgroups, theirs, parent, self._kept, act))
        self._channels[pid] = ours
        return pid

    def use(self, pid: int, request: dict[str, Any], fds: list[int]) -> bool:
        """Tell one what to become; False if it is not there any more."""
        channel = self._channels.pop(pid, None)
        if channel is None:
            return False
        with channel, contextlib.suppress(OSError):
            send(channel, request, fds)
            return True
        return False

    def forget(self, pid: int) -> None:
        """One has ended."""
        channel = self._channels.pop(pid, None)
        if channel is not None:
            channel.close()


def _wait(
    cgroups: list[str], channel: socket.socket, parent: int, kept: tuple[int, ...], act: Act
) -> None:
    linux.die_with_parent(parent)
    _close_all_but(channel.fileno(), *kept)
    entering.join(cgroups)
    received = receive(channel)
    channel.close()
    if received is not None:
        request, fds = received
        act({**request, "cgroups": []}, fds)


def _close_all_but(*kept: int) -> None:
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _FILES)
