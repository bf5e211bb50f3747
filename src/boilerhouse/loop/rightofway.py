"""The right of way: what somebody waits for goes before what nobody waits for.

claim ─► with way.taken() ──────────┐
                                    ├─► one event loop, one disk, one fork server
refill, Events ─► await way.clear() ┘

A claim takes milliseconds, and filling its place in the pool takes ten times as many. Both are done
by one event loop, so a claim that comes while ten places are being filled would wait for all of
them. Whoever works in the background asks here before each piece of work, and is let through when
nobody has been in the foreground for a moment. It is a courtesy and not a lock: nobody in the
background waits longer than `longest` for one piece, so under a load that never pauses everything
still happens, only later; and nobody in the foreground ever waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

PAUSE = 0.005  # seconds without anybody in the foreground: a caller's next claim comes sooner
LONGEST = 1.0  # seconds that one piece of background work is held back, or one claim holds it back


class RightOfWay:
    """Belongs to one event loop. Everything that shares this loop shares one of these."""

    def __init__(self, *, pause: float = PAUSE, longest: float = LONGEST) -> None:
        self.longest = longest
        self._pause = pause
        self._foreground = 0
        self._opening: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_clear(self) -> bool:
        """Whether background work may go on now."""
        return not self._foreground and self._opening is None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Be in the foreground: somebody waits. After `longest` it does not count any more.

        So a claim that waits for a machine with room does not keep pools from being filled.
        """
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        self._foreground += 1
        loop = asyncio.get_running_loop()
        left = False

        def leave() -> None:
            nonlocal left
            if left:
                return
            left = True
            expiry.cancel()
            self._foreground -= 1
            if not self._foreground:
                self._opening = loop.call_later(self._pause, self._open)

        expiry = loop.call_later(self.longest, leave)
        try:
            yield
        finally:
            leave()

    async def clear(self, waited: float = 0.0) -> None:
        """Wait until nobody is in the foreground, `longest` less what was `waited` at most."""
        if self.is_clear:
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        overdue = loop.call_later(max(0.0, self.longest - waited), _let_go, turn)
        self._waiting.append(turn)
        try:
            await turn
        finally:
            overdue.cancel()
            if turn in self._waiting:
                self._waiting.remove(turn)

    def _open(self) -> None:
        self._opening = None
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            _let_go(turn)


def _let_go(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
