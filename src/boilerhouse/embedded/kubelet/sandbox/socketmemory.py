"""Buffers of sockets under cgroups v1: a container far above its limit is killed, as v2 kills it.

    each second ─► what all have in buffers ─► more than one may have ─► what each has ─► OOMKilled

The limit of version 1 (cgroup.py) bounds how large buffers grow, not how many there are: beyond it
each socket still gets some ten pages, and a container may open sockets by the ten thousand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from boilerhouse.embedded.kubelet.kernel.cgroup import Groups
from boilerhouse.embedded.kubelet.sandbox.process import Container

log = structlog.get_logger(__name__)

SECONDS = 1.0  # between two looks
_SLACK = 32 << 20  # bytes above one and a half times the limit, for those pages


class SocketMemory:
    """Looks at what is `running`; nothing to do where the kernel counts sockets with all else."""

    def __init__(self, groups: Groups, running: Callable[[], Iterable[Container]]) -> None:
        self._groups = groups
        self._running = running
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._groups.socket_bytes() is not None:
            self._again()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._look)

    def _look(self) -> None:
        self._again()
        if (self._groups.socket_bytes() or 0) <= _SLACK:  # nearly always: one small file
            return
        for container in self._running():
            limit = container.spec.memory_bytes
            held = container.slot.group.socket_bytes()
            if limit is not None and held is not None and held > limit * 3 // 2 + _SLACK:
                log.warning("kubelet.socket_memory", container=container.spec.name, bytes=held)
                container.kill_for_memory()
