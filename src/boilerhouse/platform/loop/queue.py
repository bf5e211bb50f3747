"""A queue of keys that merges, delays and backs off.

add ──► ready ──► take ──► (being worked on) ──► done
          ▲        ▲                               │ added meanwhile? once more
          │        └── put off: behind all others ◄┤
          └── timers: add_after, back_off ◄────────┘

What is queued is the *name* of an object, never an event: ten changes of one object while it waits
are one pass, and a pass always looks at the newest state. That makes losing or doubling an event
harmless, which is why everything upstream may be sloppy and this file may not.

A key is in at most one of three places: ready, put off, in hand. Nobody gets a key that somebody
else has in hand, neither by `take` nor by `hold`, so there is one pass per key without a lock.

A key is put off when it was found that its object wants something, and nobody waits for that. It is
handed out again when nothing else is ready, and news of the object make it as ready as any other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from boilerhouse.core.backoff import backoff
from boilerhouse.core.clock import Random

K = TypeVar("K", bound=Hashable)

BASE = timedelta(milliseconds=50)
CAP = timedelta(minutes=5)
# Seconds after which one key that was put off has its turn, however much is ready.
AT_LEAST_EVERY = 0.1


class Closed(Exception):
    """The queue hands out nothing more."""


class Turn(NamedTuple, Generic[K]):
    """A key that is handed out: how many seconds it waited, and whether it had been put off."""

    key: K
    waited: float
    was_put_off: bool


class KeyedQueue(Generic[K]):
    """Keys waiting for a pass. Belongs to one event loop."""

    def __init__(self, *, rng: Random, base: timedelta = BASE, cap: timedelta = CAP) -> None:
        self._rng = rng
        self._base = base.total_seconds()
        self._cap = cap.total_seconds()
        self._ready: dict[K, float] = {}  # in order of arrival, with the time of arrival
        self._put_off: dict[K, float] = {}  # likewise
        self._last_of_those = 0.0  # when one that was put off had its turn
        self._in_hand: set[K] = set()
        self._again: set[K] = set()  # added while in hand
        self._given_back: dict[K, asyncio.Event] = {}  # for who wants it out of turn
        # With the time of each: a handle of uvloop's does not tell, if the time is now.
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = True

    def open(self) -> None:
        """Begin to take keys. Until then, and after `close`, what is added is dropped.

        A queue nobody works on would only grow; whoever opens it adds everything there is first.
        """
        self._closed = False

    def __len__(self) -> int:
        """Count the keys that wait for a worker; delayed ones do not."""
        return len(self._ready) + len(self._put_off)

    @property
    def in_hand(self) -> int:
        return len(self._in_hand)

    def is_in_hand(self, key: K) -> bool:
        return key in self._in_hand

    @property
    def delayed(self) -> int:
        return len(self._timers)

    def add(self, key: K) -> None:
        """Ask for a pass soon. Asking twice before it starts asks once."""
        if self._closed or key in self._ready or key in self._again:
            return
        if key in self._timers:
            self._timers.pop(key)[1].cancel()
        self._put_off.pop(key, None)
        if key in self._in_hand:
            self._again.add(key)
        else:
            self._ready[key] = asyncio.get_running_loop().time()
            self._wake_one()

    def add_after(self, key: K, delay: timedelta) -> None:
        """Ask for a pass after `delay`. Of several such wishes the earliest wins."""
        if self._closed or key in self._ready or key in self._again:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, delay.total_seconds())
        due, timer = self._timers.get(key, (0.0, None))
        if timer is not None:
            if due <= when:
                return
            timer.cancel()
        self._timers[key] = when, loop.call_at(when, self.add, key)

    def put_off(self, key: K) -> None:
        """Ask for a pass when nothing else is ready; a pass that is to come anyway will do."""
        if self._closed or key in self._ready or key in self._in_hand:
            return
        self._put_off.setdefault(key, asyncio.get_running_loop().time())
        self._wake_one()

    def back_off(self, key: K) -> timedelta:
        """Ask for another try after a failure, each one later than the last; return the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = timedelta(seconds=backoff(failures, self._base, self._cap, self._rng))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """A pass went well: the next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def take(self) -> Turn[K]:
        """Wait for a key and hand it out; raise `Closed` at the end."""
        loop = asyncio.get_running_loop()
        while not (self._ready or self._put_off):
            if self._closed:
                raise Closed
            turn = loop.create_future()
            self._takers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._wake_one()  # the turn was ours but we leave: pass it on
                raise
        now = loop.time()
        line, was_put_off = self._ready, False
        if self._put_off and (not line or now - self._last_of_those >= AT_LEAST_EVERY):
            line, was_put_off = self._put_off, True
            self._last_of_those = now
        key = next(iter(line))
        since = line.pop(key)
        self._in_hand.add(key)
        return Turn(key, now - since, was_put_off)

    async def hold(self, key: K) -> None:
        """Take a key out of turn, as soon as nobody has it in hand; give it back by `done`."""
        while key in self._in_hand:
            given_back = self._given_back.get(key)
            if given_back is None:
                given_back = self._given_back[key] = asyncio.Event()
            await given_back.wait()
        waiting = self._ready.pop(key, None), self._put_off.pop(key, None)
        if waiting != (None, None):
            self._again.add(key)
        self._in_hand.add(key)

    def done(self, key: K) -> None:
        """Give a key back. Whatever was added meanwhile is ready now."""
        if self.give_back(key):
            self.add(key)

    def give_back(self, key: K) -> bool:
        """Give a key back, and take over what was added meanwhile: whether there was any."""
        self._in_hand.discard(key)
        if key in self._given_back:
            self._given_back.pop(key).set()
        if key not in self._again:
            return False
        self._again.discard(key)
        return True

    def close(self) -> None:
        """Drop what waits and send every taker home. Keys in hand may still be given back."""
        self._closed = True
        self._ready.clear()
        self._put_off.clear()
        self._again.clear()
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._takers:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            turn = self._takers.popleft()
            if not turn.done():  # else whoever waited has left
                turn.set_result(None)
                return
