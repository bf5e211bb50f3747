"""Whose processes run in the instance, and how they are halted: a port, since the worlds differ.

Pod (shared process namespace) ─► PodProcesses ─┐
embedded kubelet ───────────────► its own      ─┴─► Processes ─► Agent
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from boilerhouse.platform.processes import freezing

_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_NEWCOMERS = 0.1  # seconds between looks for processes that came while the tenant is halted


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the tenant, as the agent sees it: ids are those on the agent's side."""

    pid: int
    uid: int
    gid: int


class Processes(Protocol):
    """The tenant's processes."""

    def of_tenant(self) -> list[Process]:
        """Return those that live now, oldest first as far as their numbers tell; may be none."""
        ...

    def container(self) -> str:
        """Return what the Pod's status calls their container, without the runtime's prefix.

        Empty if there is none, or if it cannot be told. May block.
        """
        ...

    async def freeze(self, *, allow_exec: bool = False) -> None:
        """Halt them all; on return none runs. May be repeated.

        Who comes later is halted as well, until `thaw` or `kill`; with `allow_exec`, commands that
        are started later (kubectl exec) run as usual, and a repetition leaves them alone. A freeze
        without it halts those too. Raises `Restless` if it takes too long: then all run again.
        """
        ...

    def prepare_next(self) -> None:
        """Be told that a kill follows: who starts the tenant again then may make itself ready now.

        Nothing depends on it; a thaw takes it back. May be repeated.
        """
        ...

    async def thaw(self) -> None:
        """Let them go on. May be repeated, and needs no freeze before it."""
        ...

    async def kill(self) -> None:
        """Kill those that are halted, without a moment to act; kubelet starts the tenant again.

        Who runs is left alone: after a crash in between, this may be asked for a second time.
        """
        ...


class PodProcesses:
    """A Pod whose containers share one process namespace.

    Number 1 there is the Pod's pause process; this process and its children are the agent's;
    everything else is the tenant's. Kubelet may start the tenant's container again at any moment,
    and people may enter it: so while the tenant is halted, newcomers are looked for.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._watching: asyncio.Task[None] | None = None
        self._exec_allowed = False
        self._enough = asyncio.Event()

    def of_tenant(self) -> list[Process]:
        return [process for process, alive in self._all()[0] if alive]

    def container(self) -> str:
        for process in self.of_tenant():
            with contextlib.suppress(OSError):
                # Runtimes name a container's cgroup by its id, in a way of their own each.
                found = _CONTAINER.findall((self._proc / str(process.pid) / "cgroup").read_text())
                if found:
                    return str(found[0])
        return ""

    async def freeze(self, *, allow_exec: bool = False) -> None:
        if allow_exec and self._exec_allowed:
            return  # who came since is a command, and may run
        await self._unwatch()
        self._exec_allowed = False
        await freezing.freeze(self._numbers, _send)
        self._exec_allowed = allow_exec
        if allow_exec:
            # A command is no descendant of what is stopped: the runtime starts it. So does kubelet
            # a container that has ended, which cannot be told from a command here.
            return
        self._enough.clear()
        self._watching = asyncio.create_task(self._watch(), name="newcomers")

    def prepare_next(self) -> None:
        return  # the node's own kubelet starts containers, and cannot be told

    async def thaw(self) -> None:
        await self._unwatch()
        self._exec_allowed = False
        await asyncio.to_thread(freezing.thaw, self._numbers, _send)

    async def kill(self) -> None:
        await self._unwatch()
        self._exec_allowed = False
        await asyncio.to_thread(self._kill)

    def _kill(self) -> None:
        # Once is enough: who is halted cannot fork.
        for pid in self._numbers():
            if freezing.halted(pid):
                _send(pid, signal.SIGKILL)

    async def _watch(self) -> None:
        while not self._enough.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NEWCOMERS):
                    await self._enough.wait()
            if not self._enough.is_set():
                await asyncio.to_thread(freezing.stop_moving, self._numbers, _send)

    async def _unwatch(self) -> None:
        """Look for newcomers no more. A look under way is waited for: it may still stop some."""
        self._enough.set()
        if self._watching is not None:
            await asyncio.wait({self._watching})
            self._watching = None

    def _numbers(self) -> list[int]:
        found, vanished = self._all()
        return [*(process.pid for process, _ in found), *vanished]

    def _all(self) -> tuple[list[tuple[Process, bool]], list[int]]:
        """Return the tenant's processes by number, and whether each lives; and who ended just now,
        of whom nobody can tell whose they were."""
        parents: dict[int, int] = {}
        found: list[tuple[Process, bool]] = []
        vanished: list[int] = []
        for path in self._proc.iterdir():
            if not path.name.isdecimal():
                continue
            seen = look(path)
            if seen is None:
                vanished.append(int(path.name))
            else:
                process, parents[process.pid], alive = seen
                found.append((process, alive))
        agents = os.getpid()
        tenants = [
            (process, alive)
            for process, alive in sorted(found, key=lambda one: one[0].pid)
            if process.pid != 1 and not _descends(process.pid, agents, parents)
        ]
        return tenants, vanished


def look(path: Path) -> tuple[Process, int, bool] | None:
    """Read /proc/<pid>: the process, its parent, whether it lives. None if it ended meanwhile."""
    try:
        text = (path / "status").read_text(errors="replace")
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    uid, gid = (int(fields[name].split()[1]) for name in ("Uid", "Gid"))
    alive = not fields["State"].startswith("Z")
    return Process(int(path.name), uid, gid), int(fields["PPid"]), alive


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    # Ends at the first parent that is not listed: 0, for one. Numbers reused while we looked could
    # make a circle, hence the bound.
    for _ in range(len(parents) + 1):
        if pid == ancestor:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False
