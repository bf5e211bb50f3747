"""One controller: keys in, passes out.

queue ──► can wait? ──► read(key) ──► Seen ──► decide ──► Plan ──► apply ──► done | again | retry
  ▲          │                                                           | terminal
  └─ put off ┘

Level-triggered: a pass is told *which* object to look at, never what happened to it. It gathers
what is there now (`read`), decides without I/O (`decide`) and carries the decision out (`apply`);
so a pass that is repeated, delayed or run by two processes does no harm, and a crash anywhere
means "run it again".

The same pass can be run inline (`run_inline`), by an API handler that has just written the object
and does not want to wait for another process. It has the key in hand as a worker would, so within
one process two passes of one key never overlap.

Of some keys it can be told without a pass that what they need is due and that nobody waits for it
(`can_wait`). They are put off until nothing else is ready: of ten thousand deadlines at one moment
all are judged within it, and what that leads to is done one after another, behind everything that
somebody waits for. Its turn is a pass like any other, so whatever happened meanwhile counts.

Passes that nobody waits for give way (`rightofway.py`) to what somebody does: their keys are held
back, without a worker, until the way is clear or it has been long enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

import structlog

from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.errors import Conflict, Overloaded, Retry, Terminal
from boilerhouse.platform.loop import metrics
from boilerhouse.platform.loop.queue import Closed, KeyedQueue
from boilerhouse.platform.loop.recorder import Pass, Recorder
from boilerhouse.platform.loop.rightofway import Place, RightOfWay

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
P = TypeVar("P")

log = structlog.get_logger(__name__)

AT_ONCE = timedelta(0)
MOST_PASSES = 32  # in a row, inline: enough for any claim, and no spin if a decision never settles


class Controller(Generic[K, S, P]):
    """Passes over the keys of one kind, at most one per key and `workers` at a time.

    `read` returns None for an object that is gone: there is nothing to decide. `apply` returns the
    delay after which the object wants another pass, or None. `keys` lists everything there is, for
    the resync that catches what no event announced. With a `way`, passes over keys of which
    `gives_way` says so wait until it is clear: for as long as the way asks of everybody, or for
    `patience` seconds if those are more. Keys of which `can_wait` says so are put off once.
    """

    def __init__(
        self,
        name: str,
        *,
        read: Callable[[K], Awaitable[S | None]],
        decide: Callable[[S], P],
        apply: Callable[[K, S, P], Awaitable[timedelta | None]],
        keys: Callable[[], Iterable[K]],
        clock: Clock,
        chance: Random,
        recorder: Recorder,
        workers: int = 16,
        resync: timedelta = timedelta(minutes=10),
        leader_only: bool = False,
        way: RightOfWay | None = None,
        gives_way: Callable[[K], bool] = lambda key: True,
        patience: Callable[[K], float] = lambda key: 0.0,
        can_wait: Callable[[K], bool] = lambda key: False,
    ) -> None:
        self.name = name
        self.leader_only = leader_only
        self.queue: KeyedQueue[K] = KeyedQueue(chance=chance)
        self._read = read
        self._decide = decide
        self._apply = apply
        self.keys = keys
        self._clock = clock
        self._chance = chance
        self._recorder = recorder
        self._workers = workers
        self._resync = resync
        self._way = way
        self._gives_way = gives_way
        self._patience = patience
        self._can_wait = can_wait
        self._since: dict[K, float] = {}  # when a key was first held back, until it is carried out
        self._held: dict[K, Place] = {}
        self._let_through: set[K] = set()  # held back before, and not any more
        self._active = 0
        self._metrics = metrics.Of(name)
        self._metrics.watch(
            lambda: len(self.queue), lambda: self.queue.delayed, lambda: self._active
        )

    async def run(self, stopping: asyncio.Event, grace: timedelta = timedelta(seconds=30)) -> None:
        """Work until `stopping` is set; then let the passes under way finish, within `grace`."""
        self.queue.open()
        for key in self.keys():
            self.queue.add(key)
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self._workers)
        ]
        resync = asyncio.create_task(self._resync_for_ever(), name=f"{self.name}-resync")
        stopped = asyncio.create_task(stopping.wait())
        try:
            # A worker ends early only by a bug here; then the process must not live on, deaf.
            done, _ = await asyncio.wait(
                [stopped, resync, *workers], return_when=asyncio.FIRST_COMPLETED
            )
            for task in done - {stopped}:
                task.result()
        finally:
            self.queue.close()
            for place in self._held.values():
                if self._way is not None:
                    self._way.step_out(place)
            self._held.clear()
            resync.cancel()
            stopped.cancel()
            _, late = await asyncio.wait(workers, timeout=grace.total_seconds())
            for worker in late:
                log.warning(
                    "controller.pass_cut_off", controller=self.name, worker=worker.get_name()
                )
                worker.cancel()
            await asyncio.gather(*workers, resync, stopped, return_exceptions=True)

    async def run_inline(self, key: K) -> None:
        """Run one pass now, in the caller's task; what it wants later goes to the queue.

        Errors reach the caller, and the queue retries them as well.
        """
        await self.run_until(key, lambda: False, passes=1)

    async def run_until(self, key: K, done: Callable[[], bool], passes: int = MOST_PASSES) -> None:
        """Run passes now, in the caller's task, until `done`, or the object wants to wait.

        What happens to the object meanwhile asks for one more pass afterwards, by a worker; so
        does what is left if the passes run out. Errors reach the caller, and are retried as well.
        """
        again_in: timedelta | None = None
        is_done = False
        await self.queue.hold(key)
        try:
            for _ in range(passes):
                error, again_in = await self._pass(key)
                if error is not None:
                    raise error
                is_done = done()
                if is_done or again_in is None or again_in > AT_ONCE:
                    return
        finally:
            # Also if the caller leaves in the midst of a pass: what the last one wanted.
            if again_in is not None:
                self.queue.add_after(key, again_in)
            if self.queue.give_back(key) and not (is_done and self._hold_back_what_is_left(key)):
                self.queue.add(key)

    def busy(self, key: K) -> bool:
        """Tell whether a pass of this key is under way in this process."""
        return self.queue.is_in_hand(key)

    async def _work(self) -> None:
        while True:
            try:
                key, waited, was_put_off = await self.queue.take()
            except Closed:
                return
            # One that was held back could not wait a moment ago.
            judged = was_put_off or key in self._let_through
            if not judged and self._can_wait(key):
                self.queue.done(key)
                self.queue.put_off(key)
                self._metrics.ended("put off")
                await asyncio.sleep(0)  # nothing else here lets others go on
                continue
            way = self._way_to_give(key)
            if way is not None and self._hold_back(key, way):
                self.queue.done(key)
                continue
            self._let_through.discard(key)
            self._metrics.wait.observe(waited)
            try:
                with nullcontext() if way is None else way.working(key):
                    _, again_in = await self._pass(key)
                if again_in is not None:
                    self.queue.add_after(key, again_in)
            finally:
                self._since.pop(key, None)
                self.queue.done(key)

    def _way_to_give(self, key: K) -> RightOfWay | None:
        """Return the way that a pass of this key gives; None if somebody waits for the object."""
        way = self._way
        if way is None or way.is_wanted(key) or not self._gives_way(key):
            return None
        return way

    def _hold_back(self, key: K, way: RightOfWay) -> bool:
        """Tell whether a key has to give way now; if so it comes back by itself."""
        if key in self._let_through or way.has_room:
            return False
        if key not in self._held:
            now = asyncio.get_running_loop().time()
            waited = now - self._since.setdefault(key, now)
            if waited >= way.longest and not self._is_patient(key):
                return False
            self._held[key] = way.line_up(partial(self._come_back, key, way), waited)
        return True

    def _hold_back_what_is_left(self, key: K) -> bool:
        """Hold back a key whose object whoever waits for it has by now: nobody waits any more."""
        way = self._way
        return way is not None and self._gives_way(key) and self._hold_back(key, way)

    def _is_patient(self, key: K) -> bool:
        """Whether a key that was held back for as long as others are may be held back further."""
        now = asyncio.get_running_loop().time()
        return now - self._since.get(key, now) < self._patience(key)

    def _come_back(self, key: K, way: RightOfWay) -> bool:
        """Ask for the pass that was held back, or line up anew; tell whether it comes."""
        del self._held[key]
        if not way.is_clear and self._is_patient(key):
            self._held[key] = way.line_up(partial(self._come_back, key, way))
            return False
        self._let_through.add(key)
        self.queue.add(key)
        return True

    async def _pass(self, key: K) -> tuple[Exception | None, timedelta | None]:
        """Run read → decide → apply once; return the error, or when another pass is wanted.

        After an error the queue knows that already.
        """
        seen: S | None = None
        again_in: timedelta | None = None
        plan: P | None = None
        error: Exception | None = None
        began = self._clock.monotonic()
        self._active += 1
        try:
            seen = await self._read(key)
            if seen is not None:
                plan = self._decide(seen)
                again_in = await self._apply(key, seen, plan)
            self.queue.forget(key)
            result = "done" if again_in is None else "again"
        except Exception as caught:  # noqa: BLE001 - whatever a step raises, the loop lives on
            error = caught
            result = self._settle_error(key, caught)
        finally:
            self._active -= 1
        self._metrics.seconds.observe(self._clock.monotonic() - began)
        self._metrics.ended(result)
        if seen is not None or error is not None:
            outcome = result if error is None else f"{result}: {error}"
            self._recorder.record(self.name, key, Pass(self._clock.now(), seen, plan, outcome))
        return error, again_in

    def _settle_error(self, key: K, error: Exception) -> str:
        """Decide what a failed pass means. It is logged, counted and recorded, never swallowed."""
        match error:
            case Terminal():
                self.queue.forget(key)
                log.warning("pass.terminal", controller=self.name, key=key, error=str(error))
                return "terminal"
            case Conflict():
                # Somebody was faster. Not a failure of ours: look again soon, but never in a spin.
                self.queue.back_off(key)
                log.debug("pass.conflict", controller=self.name, key=key, error=str(error))
                return "conflict"
            case Retry(after=timedelta() as after) | Overloaded(after=timedelta() as after):
                self.queue.add_after(key, after)
                log.info("pass.retry", controller=self.name, key=key, error=str(error), after=after)
                return "retry"
            case Retry():
                delay = self.queue.back_off(key)
                log.info("pass.retry", controller=self.name, key=key, error=str(error), after=delay)
                return "retry"
            case _:
                delay = self.queue.back_off(key)
                log.error("pass.failed", controller=self.name, key=key, after=delay, exc_info=error)
                return "error"

    async def _resync_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._resync.total_seconds())
            # Spread over a tenth of the period, so that a resync is a drizzle and not a flood.
            spread = self._resync / 10
            for key in list(self.keys()):
                self.queue.add_after(key, spread * self._chance.random())
