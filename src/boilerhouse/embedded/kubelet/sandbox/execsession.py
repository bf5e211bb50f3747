"""A command with everything it starts: killed as one when it is cut off.

Container.exec ─► Session ─► Program.close ─► kill, if the command has not ended by itself
                        └─► release: what it left behind stays, and is the container's

With cgroups that can be frozen each command has one of its own, and nothing gets out of it.
Without, what is known of processes must do: whoever descends from the command or is in a session
that one of them began. Who has begun a session of its own, and whose parent has ended, is missed.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from boilerhouse.embedded.kubelet.kernel.freezer import Freezer
from boilerhouse.platform.processes import freezing
from boilerhouse.platform.processes.vforking import fields

_LOOKS = 50  # for processes that came while the others were being stopped


class Session(Protocol):
    """What a command has to itself."""

    async def kill(self, pid: int) -> None:
        """Kill the command, which is the process `pid`, and all it started; not to be cut off."""
        ...

    def release(self) -> None:
        """Note that the command has ended, or never began."""
        ...


class CgroupSession:
    """A cgroup of its own."""

    def __init__(self, freezer: Freezer, background: Callable[[Callable[[], None]], None]) -> None:
        self.directory: Path = freezer.command()
        self._freezer = freezer
        self._background = background

    async def kill(self, pid: int) -> None:
        await freezing.to_its_end(lambda: self._freezer.kill(self.directory))

    def release(self) -> None:
        self._background(lambda: self._freezer.release(self.directory))


class TreeSession:
    """What can be found: `processes` lists the container's, `send` signals one of them."""

    def __init__(
        self, processes: Callable[[], list[int]], send: Callable[[int, int], None]
    ) -> None:
        self._processes = processes
        self._send = send

    async def kill(self, pid: int) -> None:
        await freezing.to_its_end(lambda: self._kill(pid))

    def _kill(self, pid: int) -> None:
        """Stop them all before any is killed: whose parent has died is found no more."""
        self._send(pid, signal.SIGSTOP)
        found = {pid}
        for _ in range(_LOOKS):
            more = _descendants(pid, self._processes()) - found
            for process in more:
                self._send(process, signal.SIGSTOP)
            found |= more
            if not more:
                break
        for process in found:
            self._send(process, signal.SIGKILL)

    def release(self) -> None:
        return


def _descendants(root: int, processes: Iterable[int]) -> set[int]:
    """Return who descends from a process, or is in a session that it or a descendant began."""
    origins: dict[int, tuple[int, int]] = {}
    for pid in processes:
        with contextlib.suppress(OSError):
            read = fields(f"/proc/{pid}/stat")
            origins[pid] = int(read[1]), int(read[3])
    found = {root}
    while more := {pid for pid, origin in origins.items() if found & {*origin}} - found:
        found |= more
    return found
