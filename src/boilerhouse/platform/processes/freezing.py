"""Bringing processes to a standstill, whatever they do meanwhile.

list ─► stop who moves ─► list again ─► … ─► two looks in a row at the same, unmoving processes

One look proves nothing: who was seen at rest may have been woken by somebody who was seen later,
and who forks while it is being stopped leaves a child that was on no list. Once everybody on a
list was at rest, nobody is left to fork or to wake, so the next look that finds the same is true.
Who was on the list and is dead when looked at is no rest either: it may have left a child, which
does the same before it is listed. Such chains were seen to pass for an empty room.

Most programs start others by vfork: until the child has its own program the parent hangs in the
kernel and cannot stop. A child that was stopped in that moment is let go on until it is past it;
one that is not past it after a second stays stopped, and its parent is at rest (vforking.py).

A process rests when every thread of it does. Its first thread may be a zombie while others run on,
and a thread within a system call stops only when that ends: so threads are looked at, one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from typing import TypeVar

from boilerhouse.platform.processes import vforking
from boilerhouse.platform.processes.vforking import Vforking, fields, unexecuted

SECONDS = 10.0  # what a standstill may take
_LOOKS = 8  # in a row, before the processor is left to others for a moment
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.001, 0.05
_DEAD = frozenset("ZXx")
_AT_REST = frozenset("Tt") | _DEAD
_HANGS = "D"
_VFORK_SECONDS = 1.0  # for a child of vfork to get its own program
_STOP_PENDING = 1 << (signal.SIGSTOP - 1)

R = TypeVar("R")
Numbers = Callable[[], Iterable[int]]
Send = Callable[[int, int], None]  # a signal to a process; one that is gone is no error


class Restless(Exception):
    """Some process cannot be brought to rest; what was stopped goes on again."""


async def freeze(
    numbers: Numbers,
    send: Send,
    let_run: Callable[[], None] = lambda: None,
    *,
    seconds: float = SECONDS,
) -> None:
    """Stop the processes; on return none of them runs, nor any that they forked.

    `numbers` lists them anew each time it is called, with those that are dead by then: who is left
    out of it may have forked. `let_run` is called once if they do not stop at once, which they may
    need a processor for.
    """
    looks = _Looks(numbers, send, asyncio.get_running_loop().time)
    pause = _FIRST_PAUSE_SECONDS
    try:
        while restless := await to_its_end(looks.look):
            if pause == _FIRST_PAUSE_SECONDS:
                let_run()
            if looks.seconds >= seconds:
                raise Restless(f"the tenant did not come to rest in {seconds:g} s: {restless}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
    except BaseException:
        thaw(numbers, send)
        raise


async def to_its_end(work: Callable[[], R]) -> R:
    """Work in a thread, which cannot be cut off: it must not stop a process after a thaw."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def thaw(numbers: Numbers, send: Send) -> None:
    """Let them all go on, also those that the tenant itself had stopped: we cannot tell."""
    for pid in numbers():
        send(pid, signal.SIGCONT)


def stop_moving(numbers: Numbers, send: Send) -> None:
    """Stop those that move now; no promise about what they do meanwhile."""
    for pid in numbers():
        if state(pid) not in ("", "T"):
            send(pid, signal.SIGSTOP)


def state(pid: int) -> str:
    """Return T for a process at rest, the letter of a thread that is not, nothing for the dead."""
    letters = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  many, and only their names
            with contextlib.suppress(OSError):
                letters.add(fields(f"/proc/{pid}/task/{thread}/stat")[0].decode())
    if letters <= _DEAD:
        return ""
    return min(letters - _AT_REST, default="T")


def halted(pid: int) -> bool:
    """Tell whether a process is stopped, or will be before its program takes another step."""
    if state(pid) == "T":
        return True
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            pending = [line.split()[1] for line in file if line.startswith((b"SigPnd", b"ShdPnd"))]
        return any(int(mask, 16) & _STOP_PENDING for mask in pending)
    return False


class _Looks:
    """Looks at processes, each of which stops who moves."""

    def __init__(self, numbers: Numbers, send: Send, time: Callable[[], float]) -> None:
        self._numbers = numbers
        self._send = send
        self._time = time
        self._began = time()
        self._vforking = Vforking()

    @property
    def seconds(self) -> float:
        return self._time() - self._began

    def look(self) -> str:
        """Look a few times; return nothing once two looks agree, else what speaks against it."""
        before: set[int] | None = None
        buried: set[int] = set()
        restless = ""
        for _ in range(_LOOKS):
            letters = {pid: state(pid) for pid in self._numbers()}
            moving = {pid: letter for pid, letter in letters.items() if letter not in ("", "T")}
            hanging = {pid for pid, letter in moving.items() if letter == _HANGS}
            awaited = unexecuted(set(letters), hanging)
            if self.seconds >= _VFORK_SECONDS:
                for pid in self._waiting(hanging, letters, awaited):
                    del moving[pid]
                awaited = {}
            for pid in moving.keys() - awaited.keys():
                self._send(pid, signal.SIGSTOP)
            for pid in awaited:
                self._send(pid, signal.SIGCONT)
            dead = {pid for pid, letter in letters.items() if not letter}
            restless = _words(moving, dead - buried)
            seen = set(letters) - dead
            if not restless and before == seen:
                return ""
            if awaited:
                break  # they need a moment
            before = None if restless else seen
            buried = dead
        return restless or "its processes come and go"

    def _waiting(
        self, hanging: set[int], letters: dict[int, str], awaited: dict[int, int]
    ) -> list[int]:
        """Return those that cannot take a step, since who they wait for is halted."""
        found = []
        for pid in hanging:
            children = [child for child, parent in awaited.items() if parent == pid]
            stopped = sum(letters[child] == "T" for child in children)
            if self._vforking.at_rest(pid, stopped, self.seconds):
                # Should the child be killed, its parent must not run for that.
                self._send(pid, signal.SIGSTOP)
                found.append(pid)
        return found


def why_restless(pids: Iterable[int]) -> str:
    """Say in words which of these processes keeps a tenant from coming to rest."""
    letters = {pid: state(pid) for pid in pids}
    moving = {pid: letter for pid, letter in letters.items() if letter not in ("", "T")}
    hanging = [pid for pid, letter in moving.items() if letter == _HANGS]
    return _words({pid: moving[pid] for pid in hanging or moving}, set(letters) - set(moving))


def _words(moving: dict[int, str], died: set[int]) -> str:
    for pid, letter in moving.items():
        if letter == _HANGS:
            place = vforking.waits_in(pid, pid)
            where = f" (in {place})" if place else ""
            return f"process {pid} waits in the kernel{where} for something that does not come"
        return f"process {pid} does not stop, or others appear faster than they can be stopped"
    return "its processes come and go faster than they can be stopped" if died else ""
