"""Processes that wait in vfork(2): they cannot be stopped, and need not be.

A parent hangs in the kernel until its child has a program of its own, or ends. A child that is
halted does neither, so its parent takes no step either: it is at rest, though it looks as if it
waited for a disk. SIGSTOP is pending for it, and takes effect before its program goes on.

The kernel names the function that a thread waits in to whoever may trace it. An agent in a Pod may
not: there a thread is believed that hangs in one and the same wait for two seconds while a child
of its process, halted, still has its parent's program.
"""

from __future__ import annotations

import contextlib
import os

_IN_VFORK = frozenset({"kernel_clone", "_do_fork", "do_fork", "wait_for_vfork_done"})
_BELIEVED = 2.0  # seconds in one wait
_AT_REST = frozenset("TtZXx")
_HANGS = "D"
_NOT_EXECUTED = 0x40  # PF_FORKNOEXEC: forked, and still with the program of its parent


def fields(file: str) -> list[bytes]:
    """Return what proc(5) says from the third field on: state, parent, …, flags the seventh."""
    with open(file, "rb") as opened:  # noqa: PTH123  one of thousands
        # The name before it is the tenant's choice and may hold anything, brackets too.
        return opened.read().rpartition(b")")[2].split()


def waits_in(pid: int, thread: int) -> str:
    """Return the kernel's function that a thread waits in; nothing where that is not told."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{thread}/wchan", encoding="ascii") as file:  # noqa: PTH123
            told = file.read().strip()
        return "" if told == "0" else told
    return ""


def unexecuted(pids: set[int], parents: set[int]) -> dict[int, int]:
    """Return those that still have the program of one of these parents, with that parent."""
    found = {}
    for pid in pids if parents else ():
        with contextlib.suppress(OSError):
            read = fields(f"/proc/{pid}/stat")
            if int(read[1]) in parents and int(read[6]) & _NOT_EXECUTED:
                found[pid] = int(read[1])
    return found


class Vforking:
    """What is known of hanging processes from one look to the next."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[dict[int, str], float]] = {}

    def at_rest(self, pid: int, halted_children: int, now: float) -> bool:
        """Tell whether every thread of a process is halted, or waits in vfork for a halted child.

        `halted_children`: how many children of it are halted and have no program of their own.
        """
        unnamed: dict[int, str] = {}
        try:
            for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  only their names
                thread = int(name)
                letter = fields(f"/proc/{pid}/task/{thread}/stat")[0].decode()
                if letter in _AT_REST:
                    continue
                place = waits_in(pid, thread)
                if letter != _HANGS or (place and place not in _IN_VFORK):
                    return False
                if not place:
                    unnamed[thread] = _switches(pid, thread)
        except OSError:
            return False  # it ends just now
        if not unnamed:
            return True
        if len(unnamed) > halted_children:
            return False
        before, since = self._waits.get(pid, ({}, now))
        if before != unnamed:
            self._waits[pid] = unnamed, now
            return False
        return now - since >= _BELIEVED


def _switches(pid: int, thread: int) -> str:
    """Return how often a thread has waited: it changes when one wait ends and another begins."""
    with open(f"/proc/{pid}/task/{thread}/status", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"voluntary_ctxt_switches"):
                return line.split()[1].decode()
    return ""
