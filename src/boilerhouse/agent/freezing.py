"""Bringing processes to a standstill, whatever they do meanwhile.

list ─► stop who moves ─► list again ─► … ─► two looks in a row at the same, unmoving processes

One look proves nothing: who was seen at rest may have been woken by somebody who was seen later,
and who forks while it is being stopped leaves a child that was on no list. Once everybody on a
list was at rest, nobody is left to fork or to wake, so the next look that finds the same is true.
Who was on the list and is dead when looked at is no rest either: it may have left a child, which
does the same before it is listed. Such chains were seen to pass for an empty room.

Most programs start others by vfork: until the child has its own program the parent hangs in the
kernel and cannot stop. A child that was stopped in that moment is let go on until it is past it.

A process rests when every thread of it does. Its first thread may be a zombie while others run on,
and a thread within a system call stops only when that ends: so threads are looked at, one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable

SECONDS = 10.0  # what a standstill may take
_LOOKS = 8  # in a row, before the processor is left to others for a moment
_SHORTEST, _LONGEST = 0.001, 0.05
_DEAD = frozenset("ZXx")
_AT_REST = frozenset("Tt") | _DEAD
_HANGS = "D"
_NOT_EXECUTED = 0x40  # PF_FORKNOEXEC: forked, and still with the program of its parent

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
    time = asyncio.get_running_loop().time
    deadline = time() + seconds
    pause = _SHORTEST
    try:
        while restless := await _to_its_end(numbers, send):
            if pause == _SHORTEST:
                let_run()
            if time() >= deadline:
                raise Restless(f"the tenant did not come to rest in {seconds:g} s: {restless}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)
    except BaseException:
        thaw(numbers, send)
        raise


async def _to_its_end(numbers: Numbers, send: Send) -> str:
    """Look in a thread, which cannot be cut off: it must not stop anybody after a thaw."""
    looking = asyncio.create_task(asyncio.to_thread(_look, numbers, send))
    try:
        return await asyncio.shield(looking)
    except asyncio.CancelledError:
        await asyncio.wait({looking})
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
                letters.add(_fields(f"/proc/{pid}/task/{thread}/stat")[0].decode())
    if letters <= _DEAD:
        return ""
    return min(letters - _AT_REST, default="T")


def _fields(file: str) -> list[bytes]:
    """Return what proc(5) says from the third field on: state, parent, …, flags the seventh."""
    with open(file, "rb") as opened:  # noqa: PTH123  one of thousands
        # The name before it is the tenant's choice and may hold anything, brackets too.
        return opened.read().rpartition(b")")[2].split()


def _look(numbers: Numbers, send: Send) -> str:
    """Look a few times; return nothing once two looks agree, else what speaks against it."""
    before: set[int] | None = None
    buried: set[int] = set()
    restless = ""
    for _ in range(_LOOKS):
        letters = {pid: state(pid) for pid in numbers()}
        moving = {pid: letter for pid, letter in letters.items() if letter not in ("", "T")}
        awaited = _awaited(letters)
        for pid in moving.keys() - awaited:
            send(pid, signal.SIGSTOP)
        for pid in awaited:
            send(pid, signal.SIGCONT)
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


def _awaited(letters: dict[int, str]) -> set[int]:
    """Return those that a parent may hang in the kernel for, until they have their own program."""
    hanging = {pid for pid, letter in letters.items() if letter == _HANGS}
    if not hanging:
        return set()
    found = set()
    for pid in letters:
        with contextlib.suppress(OSError):
            fields = _fields(f"/proc/{pid}/stat")
            if int(fields[1]) in hanging and int(fields[6]) & _NOT_EXECUTED:
                found.add(pid)
    return found


def _words(moving: dict[int, str], died: set[int]) -> str:
    for pid, letter in moving.items():
        if letter == _HANGS:
            return f"process {pid} is held up in the kernel, by a disk or a network file system"
        return f"process {pid} does not stop, or others appear faster than they can be stopped"
    return "its processes come and go faster than they can be stopped" if died else ""
