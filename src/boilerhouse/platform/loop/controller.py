"""One controller: keys in, passes out.

queue ──► priority ──► read(key) ──► Seen ──► decide ──► Plan ──► apply ──► done | again | retry
  ▲          │                                                          | terminal
  └── later ◄┘

Level-triggered: a pass is told *which* object to look at, never what happened to it. It gathers
what is there now (`read`), decides without I/O (`decide`) and carries the decision out (`apply`);
so a pass that is repeated, delayed or run by two processes does no harm, and a crash anywhere
means "run it again".

The same pass can be run inline (`run_inline`), by an API handler that has just written the object
and does not want to wait for another process. It has the key in hand as a worker would, so within
one process two passes of one key never overlap.

Passes that nobody waits for give way (`priority.py`) to what somebody does: their keys are held
back, without a worker, until the gate is clear or it has been long enough.

Of some keys it can be told without a pass that what they need is due and that nobody waits for it
(`DEFERRED`). They are put off until nothing else is ready: of ten thousand deadlines at one moment
all are judged within it, and what that leads to is done one after another, behind everything that
somebody waits for. Its turn is a pass like any other, so whatever happened meanwhile counts.
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
from boilerhouse.core.plan import AT_ONCE
from boilerhouse.platform.loop import metrics
from boilerhouse.platform.loop.priority import (
    BACKGROUND,
    DEFERRED,
    FOREGROUND,
    NORMAL,
    PATIENCE,
    Gate,
    Place,
)
from boilerhouse.platform.loop.queue import Closed, KeyedQueue
from boilerhouse.platform.loop.recorder import Pass, Recorder

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
P = TypeVar("P")

log = structlog.get_logger(__name__)

MOST_PASSES = 32  # in a row, inline: enough for any claim, and no spin if a decision never settles


class Controller(Generic[K, S, P]):
    """Passes over the keys of one kind, at most one per key and `workers` at a time.

    `read` returns None for an object that is gone: there is nothing to decide. `apply` returns the
    delay after which the object wants another pass, or None. `keys` lists everything there is, for
    the resync that catches what no event announced. Each key's next pass has a `priority`
    (priority.py); those that can be held back wait at the `gate`, if there is one.
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
        rng: Random,
        recorder: Recorder,
        workers: int = 16,
        resync: timedelta = timedelta(minutes=10),
        leader_only: bool = False,
        gate: Gate | None = None,
        priority: Callable[[K], int] = lambda key: NORMAL,
    ) -> None:
        self.name = name
        self.leader_only = leader_only
        self.queue: KeyedQueue[K] = KeyedQueue(rng=rng)
        self._read = read
        self._decide = decide
        self._apply = apply
        self.keys = keys
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._workers = workers
        self._resync = resync
        self._gate = gate
        self._priority = priority
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
                if self._gate is not None:
                    self._gate.step_out(place)
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
            priority = self._priority(key)
            # One that was held back was not to be put off a moment ago.
            judged = was_put_off or key in self._let_through
            if priority == DEFERRED and not judged:
                self.queue.done(key)
                self.queue.put_off(key)
                self._metrics.ended("put off")
                await asyncio.sleep(0)  # nothing else here lets others go on
                continue
            gate = None if priority == FOREGROUND else self._gate
            if gate is not None and gate.is_wanted(key):
                gate = None
            if gate is not None and self._hold_back(key, gate):
                self.queue.done(key)
                continue
            self._let_through.discard(key)
            self._metrics.wait.observe(waited)
            try:
                with nullcontext() if gate is None else gate.background():
                    _, again_in = await self._pass(key)
                if again_in is not None:
                    self.queue.add_after(key, again_in)
            finally:
                self._since.pop(key, None)
                self.queue.done(key)

    def _hold_back(self, key: K, gate: Gate) -> bool:
        """Tell whether a key has to give way now; if so it comes back by itself."""
        if key in self._let_through or gate.has_room:
            return False
        if key not in self._held:
            now = asyncio.get_running_loop().time()
            waited = now - self._since.setdefault(key, now)
            if waited >= gate.longest and not self._is_patient(key):
                return False
            self._held[key] = gate.line_up(partial(self._come_back, key, gate), waited)
        return True

    def _hold_back_what_is_left(self, key: K) -> bool:
        """Hold back a key whose object whoever waits for it has by now: nobody waits any more."""
        gate = self._gate
        if gate is None or self._priority(key) == FOREGROUND:
            return False
        return self._hold_back(key, gate)

    def _is_patient(self, key: K) -> bool:
        """Whether a key that was held back for as long as others are may be held back further."""
        now = asyncio.get_running_loop().time()
        waited = now - self._since.get(key, now)
        return waited < PATIENCE and self._priority(key) == BACKGROUND

    def _come_back(self, key: K, gate: Gate) -> bool:
        """Ask for the pass that was held back, or line up anew; tell whether it comes."""
        del self._held[key]
        if not gate.is_clear and self._is_patient(key):
            self._held[key] = gate.line_up(partial(self._come_back, key, gate))
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
                self.queue.add_after(key, spread * self._rng.random())
