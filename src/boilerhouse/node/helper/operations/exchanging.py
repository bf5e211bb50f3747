"""An upload or a promotion and a claim race for `current`: the upload loses.

upload, promotion ─► begun ─► … minutes … ─► commit ─► the next claim is told the new version
claim ─► current ──────────────┘ noted: the commit is refused (409 in-use)

An upload becomes current when the last of it has come. A claim that is told the old version before
that works on it, and its save would end beside what was put. So a claim that asks while one is
under way is noted, and the commit looks whether there was any. Both hold the lock of the place: who
asks during a commit waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from boilerhouse.node.helper.operations.transfer import Threads
from boilerhouse.node.helper.store.places import Place
from boilerhouse.platform.rpc.refusal import Refused

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _Watched:
    """A place with exchanges under way. `asked`: claims that were told what is there."""

    exchanges: int = 0
    asked: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One that is under way; `asked` is what was counted before it."""

    watched: _Watched
    asked: int
    threads: Threads

    async def commit(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make the call that exchanges; `Refused` if a claim has asked since this was begun."""
        async with self.watched.lock:
            if self.watched.asked != self.asked:
                raise Refused(409, "in-use", "an instance was claimed meanwhile: release it first")
            committing = self.threads.begin(call, *args, **kwargs)
            try:
                return await asyncio.shield(committing)
            finally:
                # Also if nobody waits for it any more: until then it is not known what is current.
                await asyncio.wait({committing})
                committing.exception()


class Exchanges:
    """Those under way, by place: no more than there are transfers and promotions."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._watched: dict[Place, _Watched] = {}

    def __contains__(self, where: Place) -> bool:
        return where in self._watched

    @contextmanager
    def begun(self, where: Place) -> Iterator[Exchange]:
        """Watch a place for as long as this is entered."""
        watched = self._watched.setdefault(where, _Watched())
        watched.exchanges += 1
        try:
            yield Exchange(watched, watched.asked, self._threads)
        finally:
            watched.exchanges -= 1
            if not watched.exchanges:
                del self._watched[where]

    async def note_claim(self, where: Place) -> None:
        """Note that a claim asks, once nothing is being committed.

        It holds for what the caller reads before it awaits anything: after that, others may begin.
        """
        while (watched := self._watched.get(where)) is not None:
            async with watched.lock:
                if self._watched.get(where) is watched:
                    watched.asked += 1
                    return
