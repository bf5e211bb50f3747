"""Whose processes run in the instance: a port, since that differs between the two worlds.

Pod (shared process namespace) ─► PodProcesses ─┐
embedded kubelet ───────────────► its own      ─┴─► Processes ─► Agent
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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


class PodProcesses:
    """A Pod whose containers share one process namespace.

    Number 1 there is the Pod's pause process; this process and its children are the agent's;
    everything else is the tenant's.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def of_tenant(self) -> list[Process]:
        parents: dict[int, int] = {}
        found: list[Process] = []
        for path in self._proc.iterdir():
            seen = look(path) if path.name.isdecimal() else None
            if seen is not None:
                process, parents[process.pid], alive = seen
                if alive:
                    found.append(process)
        agents = os.getpid()
        return [
            process
            for process in sorted(found, key=lambda process: process.pid)
            if process.pid != 1 and not _descends(process.pid, agents, parents)
        ]


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
