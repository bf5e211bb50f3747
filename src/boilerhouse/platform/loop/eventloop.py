"""An event loop on which what nobody waits for steps aside, one step of a task after the other.

call_soon ─► a step of a piece that can wait (rightofway.py)? ─► no  ─► at once, as on any loop
                                                             └─► yes ─► aside ─► a slice at a time

The right of way keeps pieces of background work from beginning while a claim is answered. Those
that have begun meet it here: fifty tenants that hibernate are hundreds of tasks, and a claim that
comes meanwhile would wait for whichever are due between any two steps of its own. Whose step it is
is told by its context, which a task hands on to all that it starts.

While somebody is in the foreground, all of them together have `LONGER` after every `HELD`: a tenth
of the loop's time, whatever goes on, so nothing that was begun starves. With nobody there one slice
follows the other, and between two of them everything else on the loop has its turn.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TypeVarTuple

import uvloop

from boilerhouse.core.clock import SystemClock
from boilerhouse.platform.loop.rightofway import PIECE, Piece

A = TypeVarTuple("A")

SLICE = 0.002  # seconds of what stepped aside, until others have their turn
LONGER = 0.004  # seconds of it, after all of it was held back for `HELD`
HELD = 0.036  # seconds; a claim takes less
STEP = 0.003  # seconds between two looks whether somebody is still in the foreground

_call_soon = uvloop.Loop.call_soon  # for every step of every task: not looked up each time
_clock = SystemClock()  # a loop's own time stands still during a turn of it


class EventLoop(uvloop.Loop):
    """The event loop of `boilerhouse up`."""

    def __init__(self, *, held: float = HELD) -> None:
        super().__init__()
        self._held = held
        self._aside: deque[tuple[Piece, asyncio.Handle]] = deque()
        self._since = 0.0  # the last slice, or when the first of these stepped aside
        self._looking = False
        self._due = 0  # how many have their turn at the next look
        self._nobody = contextvars.Context()

    def call_soon(
        self,
        callback: Callable[[*A], object],
        *args: *A,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Have it called in the next turn of the loop, or when it is its piece's turn."""
        piece = PIECE.get() if context is None else context.get(PIECE)
        if piece is None or not _is_step(callback) or not piece.can_wait():
            return _call_soon(self, callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        if not self._aside:
            self._since = _clock.monotonic()
        self._aside.append((piece, handle))
        self._look_again()
        return handle

    def _look_again(self) -> None:
        if self._looking or not self._aside:
            return
        self._looking = True
        if self._aside[0][0].way.is_clear:
            self._look_soon()
        else:
            self.call_later(STEP, self._look_soon, context=self._nobody)

    def _look_soon(self) -> None:
        """Look after everything that is due now: what came before a step must not be overtaken."""
        self._due = len(self._aside)
        _call_soon(self, self._look, context=self._nobody)

    def _look(self) -> None:
        try:
            if self._aside[0][0].way.is_clear:
                self._take(SLICE)
            elif _clock.monotonic() - self._since >= self._held:
                self._take(LONGER)
            else:
                self._let_urgent_go()
        finally:
            self._looking = False
            self._look_again()

    def _take(self, seconds: float) -> None:
        end = _clock.monotonic() + seconds
        for _ in range(self._due):
            _call(self._aside.popleft()[1])
            self._since = _clock.monotonic()
            if self._since >= end:
                return

    def _let_urgent_go(self) -> None:
        """Let those go that somebody waits for by now."""
        due = islice(self._aside, self._due)
        for entry in [entry for entry in due if not entry[0].can_wait()]:
            self._aside.remove(entry)
            _call(entry[1])


def _call(handle: asyncio.Handle) -> None:
    """Call it, unless it was cancelled while it waited."""
    if not handle.cancelled():
        handle._run()


def _is_step(callback: Callable[..., object]) -> bool:
    """Whether it is a step of a task. All else only connects tasks, and must not be late.

    The loop tells of a descriptor that is ready in each of its turns, until somebody has seen it.
    """
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)
