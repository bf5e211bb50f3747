"""Priorities: what somebody waits for goes before what nobody waits for.

claim ─► with gate.foreground() ──────────────────────────────────┐
                                                                  ├─► one event loop, disk
refill, release, Events ─► await gate.turn() ─► gate.background() ┘

A claim takes milliseconds, and filling its place in the pool takes ten times as many; so does
saving the files of an instance that hibernates. All is done by one event loop, so a claim that
comes while fifty of those are under way would wait for a bit of each, again and again. Background
work asks the gate before each piece, and is let through when there has been no work in the
foreground for a moment. While claims come in, only a few pieces are under way at a time: the next
claim finds no more than that in its way. When there are no claims, there is no such limit.

It is a courtesy and not a lock. The foreground never waits. What has waited for `longest` in the
background is let through whatever goes on: one piece every few milliseconds, or as many as it takes
for all of those to be through within half a second. So under a load that never pauses everything
still happens, only later.

A controller asks for the priority of each key (`FOREGROUND` to `DEFERRED`) and holds passes back
accordingly (`controller.py`).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from operator import itemgetter

# Priorities of a key, for its next pass.
FOREGROUND = 0  # somebody waits for it: at once
NORMAL = 1  # held back while there is work in the foreground, for `longest`
BACKGROUND = 2  # held back for `PATIENCE`: it is better done later
DEFERRED = 3  # behind all other keys that are ready, and then as NORMAL

PATIENCE = 10.0  # seconds
PAUSE = 0.005  # seconds without anybody in the foreground: a caller's next claim comes sooner
HOLD_BACK_SECONDS = 1.0  # one piece of background work is held back, or one claim holds it back
RECENT = 1.0  # seconds after a claim in which the next one is expected
FEW = 2  # pieces of background work at a time, while claims are expected
STEPS = 100  # in so many steps, a pause apart, all that have waited long enough are let through


Place = tuple[float, int, Callable[[], bool]]  # overdue when, number, how to let them through
_overdue_when = itemgetter(0)


class Gate:
    """Belongs to one event loop. Everything that shares this loop shares one of these."""

    def __init__(
        self, *, pause: float = PAUSE, longest: float = HOLD_BACK_SECONDS, few: int = FEW
    ) -> None:
        self.longest = longest
        self._pause = pause
        self._few = few
        self._foreground = 0
        self._wanted: dict[Hashable, int] = {}  # by how many
        self._left = float("-inf")  # when somebody was in the foreground last
        self._opening: asyncio.TimerHandle | None = None
        self._working = 0
        self._called = 0  # let through, and not at work yet
        self._waiting: list[Place] = []  # the longest first
        self._numbers = count()
        self._next: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    @property
    def is_clear(self) -> bool:
        """Whether nobody is in the foreground, nor was a moment ago."""
        return not self._foreground and self._opening is None

    @property
    def is_quiet(self) -> bool:
        """Whether nobody has been in the foreground for a while, so that nobody is expected."""
        now = asyncio.get_running_loop().time()
        return not self._foreground and now - self._left >= RECENT

    @property
    def has_room(self) -> bool:
        """Whether another piece of background work may begin now."""
        return self.is_clear and not self._waiting and self._room() > 0

    def is_wanted(self, what: Hashable) -> bool:
        """Whether somebody in the foreground waits for this very thing."""
        return what in self._wanted

    def foreground(self, what: Hashable = None) -> Foreground:
        """Be in the foreground: somebody waits for `what`. After `longest` it does not count.

        So a claim that waits for a machine with room does not keep pools from being filled.
        """
        return Foreground(self, what)

    def enter(self, what: Hashable) -> None:
        """Begin what `foreground` is for."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        self._foreground += 1
        self._wanted[what] = self._wanted.get(what, 0) + 1

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Be in the foreground no more."""
        self._foreground -= 1
        self._left = loop.time()
        if not self._foreground:
            self._opening = loop.call_later(self._pause, self._open)

    def forget(self, what: Hashable) -> None:
        """Wait for it no more."""
        left = self._wanted.pop(what) - 1
        if left:
            self._wanted[what] = left

    async def turn(self, waited: float = 0.0) -> None:
        """Wait for one's turn, `longest` less what was `waited` at most, and a little more."""
        if self.has_room:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go() -> bool:
            if turn.done():
                return False  # whoever waited has left
            turn.set_result(None)
            return True

        place = self.line_up(go, waited)
        try:
            await turn
        finally:
            self.step_out(place)

    def line_up(self, go: Callable[[], bool], waited: float = 0.0) -> Place:
        """Have `go` called when it is its turn, as `turn` would return; it tells if it goes."""
        due = asyncio.get_running_loop().time() + self.longest - waited
        place = (due, next(self._numbers), go)
        insort(self._waiting, place)
        if self._next is None or self._waiting[0] is place:
            self._look_again()
        return place

    def step_out(self, place: Place) -> None:
        """Wait no more, if one still does."""
        if place in self._waiting:
            self._waiting.remove(place)

    @contextmanager
    def background(self) -> Iterator[None]:
        """Do a piece of background work. Who waits for its turn comes when this is done."""
        self._working += 1
        self._called = max(0, self._called - 1)
        try:
            yield
        finally:
            self._working -= 1
            if self._waiting:
                self._let_through()

    def _room(self) -> int:
        """Return how many pieces may begin beside those that are under way."""
        if self.is_quiet:
            return len(self._waiting) + 1
        return self._few - self._working - self._called

    def _open(self) -> None:
        self._opening = None
        self._let_through()

    def _let_through(self, overdue: int = 0) -> None:
        """Let through who may go now, and so many whatever goes on."""
        going = max(self._room() if self.is_clear else 0, overdue)
        try:
            for _ in range(min(going, len(self._waiting))):
                _, _, go = self._waiting.pop(0)
                self._called += go()
        finally:  # whatever one of them raises, the others have their turn
            self._look_again()

    def _look_again(self) -> None:
        """Have somebody let through when it is time, also if nobody says that a piece is done."""
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        now, due = loop.time(), self._waiting[0][0]
        when = due if not self.is_clear and due > now else now + self._pause
        if self._next is not None:
            if self._next_at <= when:
                return
            self._next.cancel()
        self._next_at = when
        self._next = loop.call_at(when, self._time_to_look)

    def _time_to_look(self) -> None:
        self._next = None
        self._called = 0  # whoever does not work by now need not be waited for
        now = asyncio.get_running_loop().time()
        overdue = bisect_right(self._waiting, now, key=_overdue_when)
        self._let_through(-(-overdue // STEPS))


class Foreground:
    """Somebody in the foreground, as long as the block lasts: `Gate.foreground`."""

    __slots__ = ("_expiry", "_gate", "_loop", "_what")

    def __init__(self, gate: Gate, what: Hashable) -> None:
        self._gate = gate
        self._what = what
        self._expiry: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._gate.enter(self._what)
        self._expiry = self._loop.call_later(self._gate.longest, self._leave)

    def __exit__(self, *error: object) -> None:
        self._leave()
        self._gate.forget(self._what)

    def _leave(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
            self._gate.leave(self._loop)
