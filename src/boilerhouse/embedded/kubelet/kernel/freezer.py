"""Halting or killing all processes of a cgroup at once, whatever they fork meanwhile.

    Group ─► Freezer ─┬─► main: the container's own processes
                      └─► exec-0, exec-1, …: one command each, halted and killed by itself

The kernel freezes a process wherever it is on its way back to its program: it cannot be refused,
and no signal of another process ends it. Who waits in vfork(2) for its child counts as frozen.

Version 2 has `cgroup.freeze` and `cgroup.kill`, and what is frozen can be killed. Version 1 has
`freezer.state`, which passes over who has just gone to sleep and so is written until it is true,
and what is frozen dies only when it is thawed. Where controllers are those of version 1 there
usually is an empty tree of version 2 beside them, which is taken if it can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from boilerhouse.platform.processes import freezing
from boilerhouse.platform.processes.freezing import Restless

_MAIN = "main"
_COMMAND = "exec-"
_LOOKS = 8  # in a row, before the thread is given back for a moment
_LOOK_SECONDS = 0.0005
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.001, 0.05
_KILLS = 10_000  # tries
_GONE = (errno.ENOENT, errno.ENODEV)


class Freezer:
    """The groups of one container in the tree that freezes; `unified`: that is version 2."""

    def __init__(self, directory: Path, *, unified: bool) -> None:
        self.directory = directory
        self.main = directory / _MAIN
        self._unified = unified
        self._numbers = itertools.count()
        self._commands: set[Path] = set()  # under way: their groups may be made at any moment

    @property
    def frees_the_killed(self) -> bool:
        """Whether a frozen process that is killed dies without being thawed."""
        return self._unified

    def make(self) -> None:
        self.main.mkdir(parents=True, exist_ok=True)

    def command(self) -> Path:
        """Return where the group of a new command is to be made, until `release`."""
        made = self.directory / f"{_COMMAND}{next(self._numbers)}"
        self._commands.add(made)
        return made

    def release(self, command: Path) -> None:
        """Remove the group of a command that has ended, and those whose last process ended since.

        What a command left running stays where it is: it belongs to the container.
        """
        self._commands.discard(command)
        for group in self._groups():
            if group != self.main and group not in self._commands:
                with contextlib.suppress(OSError):  # somebody lives there
                    group.rmdir()

    def processes(self) -> list[int]:
        return [pid for group in (self.directory, *self._groups()) for pid in listed(group)]

    async def freeze(
        self, let_run: Callable[[], None] = lambda: None, *, seconds: float = freezing.SECONDS
    ) -> None:
        """Halt everything that is there; on return none of it runs. May be repeated.

        Raises `Restless` if it takes too long: then all run. `let_run` is called once if they do
        not stop at once, which they may need a processor for.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        pause = _FIRST_PAUSE_SECONDS
        try:
            while restless := await freezing.to_its_end(self._halt):
                if pause == _FIRST_PAUSE_SECONDS:
                    let_run()
                if loop.time() >= deadline:
                    why = await asyncio.to_thread(self._why, restless)
                    raise Restless(f"the tenant did not come to rest in {seconds:g} s: {why}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        except BaseException:
            await freezing.to_its_end(self.thaw)
            raise

    def thaw(self) -> None:
        """Let everything go on. May be repeated."""
        for group in self._groups():
            self._set(group, frozen=False)

    def kill(self, group: Path) -> None:
        """Kill every process of a group, frozen or not, with what it forks meanwhile. May block."""
        for _ in range(_KILLS):
            pids = listed(group)
            if not pids:
                return
            if not _written(group / "cgroup.kill", "1"):
                self._set(group, frozen=True)  # else it could fork faster than we kill
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if not self._unified:
                    self._set(group, frozen=False)
            time.sleep(_LOOK_SECONDS)

    def kill_all(self) -> None:
        """Kill everything that is there, such that nothing runs another step. May block."""
        groups = self._groups()
        for pid in (pid for group in groups for pid in listed(group)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in groups:
            self.kill(group)

    def _groups(self) -> list[Path]:
        try:
            with os.scandir(self.directory) as entries:
                return [Path(entry.path) for entry in entries if entry.is_dir()]
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return []

    def _halt(self) -> list[Path]:
        """Freeze every group; return those that are not frozen yet."""
        for _ in range(_LOOKS):
            restless = [group for group in self._groups() if not self._halted(group)]
            if not restless:
                return []
            time.sleep(_LOOK_SECONDS)
        return restless

    def _halted(self, group: Path) -> bool:
        if self._is_frozen(group):
            return True
        self._set(group, frozen=True)
        return self._is_frozen(group)

    def _is_frozen(self, group: Path) -> bool:
        try:
            if self._unified:
                return "frozen 1" in (group / "cgroup.events").read_text()
            return (group / "freezer.state").read_text().strip() == "FROZEN"
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return True  # a command that has ended

    def _set(self, group: Path, *, frozen: bool) -> None:
        if self._unified:
            _written(group / "cgroup.freeze", str(int(frozen)))
        else:
            _written(group / "freezer.state", "FROZEN" if frozen else "THAWED")

    def _why(self, groups: list[Path]) -> str:
        return freezing.why_restless(pid for group in groups for pid in listed(group))


def listed(group: Path) -> list[int]:
    """Return the processes of a group; none if it is gone."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return []


def _written(path: Path, value: str) -> bool:
    """Write to a file of the kernel's; False if it is not there (any more)."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return False
    try:
        os.write(fd, value.encode())
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return False
    finally:
        os.close(fd)
    return True
