"""What Pods and containers begin with, made before they are there.

    SlotPool.network ─► an empty network ─► netns.py
    SlotPool.take    ─► CgroupSlot: a cgroup, preforked processes in it ─► sandbox.py, process.py
         └─► a moment later: made up for

prefork.py says why. Optimisation only; callers fall back to the slow path: a group that is made,
and a process that joins it, when they are needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal

import structlog

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.forkserver.client import ForkServerClient
from boilerhouse.embedded.kubelet.kernel.cgroup import Group, Groups

SIZE = 4  # containers that can start at once, or one after another before the next are there
PREFORKED = 2  # of each: what becomes its sandbox, and its own process
FIRST = 1.0  # seconds after the start of everything, which has enough to do
PAUSE = 0.1  # seconds after one was taken: who took it needs the processors now

log = structlog.get_logger(__name__)


class CgroupSlot:
    """The group of one container, and who waits in it."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._waiting: list[tuple[int, int]] = []  # pid, pidfd

    def add(self, pid: int, pidfd: int) -> None:
        self._waiting.append((pid, pidfd))

    def preforked(self) -> int:
        """Return one that waits, for a request to name; 0 if there is none."""
        if not self._waiting:
            return 0
        pid, pidfd = self._waiting.pop()
        os.close(pidfd)
        return pid

    def clear(self) -> None:
        """End who waits. May be repeated."""
        while self._waiting:
            _, pidfd = self._waiting.pop()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


class SlotPool:
    """A few slots and networks that nobody has yet. Where there are no groups, no slots."""

    def __init__(self, fork_server: ForkServerClient, groups: Groups) -> None:
        self._fork_server = fork_server
        self._groups = groups
        self._slots: list[CgroupSlot] = []
        self._networks: list[int] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._slots)

    def fill(self, after: float = PAUSE) -> None:
        """Have it full, a moment from now."""
        if not self._closed and self._timer is None and self._filling is None:
            self._timer = asyncio.get_running_loop().call_later(after, self._begin)

    async def take(self, name: str) -> CgroupSlot:
        """Return the slot for a container, which has no limits yet; made now if there is none."""
        self.fill()
        if self._slots:
            return self._slots.pop(0)
        return CgroupSlot(await asyncio.to_thread(self._groups.create, name))

    async def network(self) -> int:
        """Return an empty network namespace, a descriptor that is the caller's now."""
        self.fill()
        return self._networks.pop(0) if self._networks else await self._made_network()

    async def close(self) -> None:
        """Keep nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._filling is not None:
            await asyncio.wait({self._filling})
        while self._networks:
            os.close(self._networks.pop())
        while self._slots:
            await discard(self._slots.pop())

    def _begin(self) -> None:
        self._timer = None
        self._filling = asyncio.create_task(self._fill(), name="stock of cgroups")

    async def _fill(self) -> None:
        try:
            while len(self._networks) < SIZE and not self._closed:
                self._networks.append(await self._made_network())
            slots = SIZE if self._groups.unenforced is None else 0
            while len(self._slots) < slots and not self._closed:
                self._slots.append(await self._made())
        except (OSError, SandboxError) as error:
            # Whoever starts a container meets it as well, and says so.
            log.info("kubelet.stock_not_filled", error=str(error))
        finally:
            self._filling = None

    async def _made_network(self) -> int:
        _, (fd,) = await self._fork_server.request({"op": "network"})
        return fd

    async def _made(self) -> CgroupSlot:
        name = f"stock.{next(self._numbers)}"
        slot = CgroupSlot(await asyncio.to_thread(self._groups.create, name))
        try:
            for _ in range(PREFORKED):
                request = {"op": "seed", "cgroups": [str(one) for one in slot.group.joined]}
                received, fds = await self._fork_server.request(request)
                slot.add(received["seed"], *fds)
        except BaseException:
            await discard(slot)
            raise
        return slot


async def discard(slot: CgroupSlot) -> None:
    """Remove a group; nobody is in it but who waits."""
    slot.clear()
    await asyncio.to_thread(slot.group.remove)
