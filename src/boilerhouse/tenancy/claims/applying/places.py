"""Places for work that is done a few at a time, in order.

place() ─► one is free ─► work ─► given on: who is in a hurry, then who came first
       └─► none is free ─► waits(), until it is given one

Fifty tenants that hibernate at once are saved a few at a time: all of them beside each other would
take as long together, and leave nothing of the machine to whoever claims meanwhile. One whose
instance was told to stop by somebody else has only its grace, and goes before the others. One that
only waits, since its tenant does not come to rest, leaves its place to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager


class Places:
    """So many at a time. Belongs to one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        # Who waits, and whether in a hurry; in the order in which they came.
        self._waiting: dict[Hashable, tuple[bool, asyncio.Future[None]]] = {}
        self._working: set[Hashable] = set()

    def waits(self, who: Hashable) -> bool:
        """Whether it has no place yet."""
        return who in self._waiting

    def hurry(self, who: Hashable) -> None:
        """Let it go before the others from now on, if it waits."""
        if who in self._waiting:
            self._waiting[who] = True, self._waiting[who][1]

    @asynccontextmanager
    async def place(self, who: Hashable, *, first: bool = False) -> AsyncGenerator[None]:
        """Wait for a place, and have it while the context lasts; nobody waits for two."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(who, first)
        self._working.add(who)
        try:
            yield
        finally:
            self.leave(who)

    def leave(self, who: Hashable) -> None:
        """Give its place on before its work has come to its end. May be repeated."""
        if who in self._working:
            self._working.discard(who)
            self._give_on()

    async def _wait(self, who: Hashable, first: bool) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[who] = first, turn
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_on()  # it was ours but we leave
            else:
                del self._waiting[who]
            raise

    def _give_on(self) -> None:
        hurried = (who for who, (first, _) in self._waiting.items() if first)
        who = next(hurried, next(iter(self._waiting), None))
        if who is None:
            self._free += 1
        else:
            self._waiting.pop(who)[1].set_result(None)
