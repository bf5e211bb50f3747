"""Steps that may take long: they hold up their own claim, and nothing else.

step ─► Jobs.run ─► done within a moment ─► the pass goes on
                └─► it goes on by itself  ─► at its end the claim is woken for another pass
bug  ─► logged, told to whoever began it ─► a failure, so that the pass after it waits
Save ─► a place (places.py): so many at a time, until then it is `QUEUED`

A worker that waited for every save would be one of sixteen, and fifty tenants that hibernate at
once would keep everybody else waiting. While a job runs, its claim's `Seen.busy` names it.

Only who reconciles does jobs. An API replica's inline passes come as far as one and leave it to the
operator, which has heard of the claim too: a hook that both ran would have run twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import structlog

from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.applying.places import Places
from boilerhouse.tenancy.claims.seen import QUEUED

log = structlog.get_logger(__name__)

PATIENCE = 0.25  # seconds; most restores of small instances take less
SAVES = 4  # at a time
_NONE: frozenset[str] = frozenset()

Failed = Callable[[BaseException], None]


class Jobs:
    """`wake` asks for a pass of a claim. Without `patience` every job is waited for.

    So many `saves` are under way at a time. Without `here`, jobs are another process's.
    """

    def __init__(
        self,
        wake: Callable[[Key], None],
        *,
        patience: float | None = PATIENCE,
        saves: int = SAVES,
        here: bool = True,
    ) -> None:
        self.here = here
        self._wake = wake
        self.patience = patience
        self._saves = Places(saves)
        self._running: dict[Key, dict[str, asyncio.Task[None]]] = {}
        self._closing = False

    def of(self, key: Key) -> frozenset[str]:
        """Return the names of the claim's jobs that are under way, and whether one is `QUEUED`."""
        running = self._running.get(key)
        if running is None:
            return _NONE
        names = frozenset(running)
        return names | {QUEUED} if self._saves.waits(key) else names

    def hurry(self, key: Key) -> None:
        """Let a claim's files be saved before those of others, if they wait for their turn."""
        self._saves.hurry(key)

    def leave_place(self, key: Key) -> None:
        """Let the next be saved beside this claim, which only waits. May be repeated."""
        self._saves.leave(key)

    async def save(
        self,
        key: Key,
        name: str,
        work: Coroutine[None, None, None],
        failed: Failed,
        *,
        first: bool,
    ) -> None:
        """Begin to save, when it is the claim's turn; `first`: that is before all others."""
        await self.run(key, name, self._in_turn(key, work, first), failed, awaited=False)

    async def run(
        self,
        key: Key,
        name: str,
        work: Coroutine[None, None, None],
        failed: Failed,
        *,
        awaited: bool = True,
    ) -> None:
        """Do the work, and return when it is done or a moment has passed; no moment if not awaited.

        A pass that waits has its place among those that are under way (priority.py), so
        only what somebody waits for is waited for here.

        It goes on whoever is no longer interested. What goes wrong in it is a failure, noted by
        the work itself; anything else is a bug, logged, and told to `failed` before the claim is
        woken. That must be a failure too: woken without one, the claim would begin it again at
        once, and so on.
        """
        task = asyncio.create_task(work, name=f"{name} {key.name}")
        self._running.setdefault(key, {})[name] = task
        task.add_done_callback(lambda done: self._ended(key, name, done, failed))
        patience = self.patience if awaited or self.patience is None else 0.0
        await asyncio.wait({task}, timeout=patience)

    async def _in_turn(self, key: Key, work: Coroutine[None, None, None], first: bool) -> None:
        try:
            async with self._saves.place(key, first=first):
                await work
        finally:
            work.close()  # if it never had its turn

    async def close(self) -> None:
        """Give up what runs; the next process does it again."""
        self._closing = True
        tasks = [task for jobs in self._running.values() for task in jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._closing = False

    def _ended(self, key: Key, name: str, task: asyncio.Task[None], failed: Failed) -> None:
        error = _bug(task)
        if error is not None and not self._closing:
            log.error("claim.job_failed", claim=key.name, job=name, exc_info=error)
            failed(error)
        jobs = self._running[key]
        del jobs[name]
        if not jobs:
            del self._running[key]
        self._wake(key)


def _bug(task: asyncio.Task[None]) -> BaseException | None:
    """Return what a task ended with that it was not to end with; nobody but `close` cancels one."""
    return asyncio.CancelledError("it was cut off") if task.cancelled() else task.exception()
