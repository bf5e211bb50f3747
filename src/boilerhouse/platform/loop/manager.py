"""Everything that runs in a controller process, started in order and stopped in order.

start: sources ──► synced ──► controllers
stop:  passes finish ──► lease released ──► sources

A controller that is `leader_only` runs while this process holds the lease, or always if there is no
elector. Leadership only saves duplicate work, so the others, and inline passes, run everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from typing import Any, Protocol

import structlog

from boilerhouse.core import supervision
from boilerhouse.core.supervision import supervised
from boilerhouse.platform.loop import metrics
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.probes import Probes

log = structlog.get_logger(__name__)

GRACE = timedelta(seconds=30)


class Source(Protocol):
    """A live copy of something outside, which controllers decide on: an informer, for one.

    `synced` is set once it is complete. `complaint` says why it cannot be trusted now, or nothing.
    """

    @property
    def synced(self) -> asyncio.Event: ...
    def running(self) -> AbstractAsyncContextManager[object]: ...
    def complaint(self) -> str: ...


class Elector(Protocol):
    """Calls `lead` whenever this process is the one that leads, and cancels it when it is not."""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None: ...


class Manager:
    """Sources and the controllers that live on them.

    `unawaited` sources run and count for health as the others do, but no controller waits for
    them to be complete: theirs can do without, and a cluster that does not let us list them stops
    nothing else.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        controllers: Sequence[Controller[Any, Any, Any]],
        unawaited: Sequence[Source] = (),
        elector: Elector | None = None,
        grace: timedelta = GRACE,
    ) -> None:
        self._awaited = sources
        self._sources = (*sources, *unawaited)
        self._elector = elector
        self._grace = grace
        self._led = [c for c in controllers if c.leader_only and elector is not None]
        self._everywhere = [c for c in controllers if c not in self._led]

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set. A controller that a bug has ended is started again."""
        async with AsyncExitStack() as stack:
            for source in self._sources:
                await stack.enter_async_context(source.running())
            if not await self._synced(stopping):
                return
            log.info("manager.running", controllers=len(self._everywhere) + len(self._led))
            async with asyncio.TaskGroup() as group:
                for controller in self._everywhere:
                    group.create_task(self._controller(controller, stopping))
                election = None
                if self._elector is not None and self._led:
                    election = group.create_task(self._elector.run(lambda: self._lead(stopping)))
                await stopping.wait()
                if election is not None:
                    # Cancelling is orderly: passes under way still finish before the lease goes.
                    election.cancel()
        log.info("manager.stopped")

    def probes(self) -> Probes:
        """Return the process's probes: every source counts, and every task that is supervised."""
        return Probes(
            healthy=lambda: [*self.unhealthy(), *supervision.complaints()],
            ready=lambda: [*self.unready(), *supervision.complaints()],
        )

    def unhealthy(self) -> list[str]:
        """Say which sources are deaf: their process is better restarted than trusted."""
        # Before it is complete there is nothing to be stale; readiness covers that time.
        told = [source.complaint() for source in self._sources if source.synced.is_set()]
        return [complaint for complaint in told if complaint]

    def unready(self) -> list[str]:
        """Say what is still missing before decisions can be made."""
        missing = [source.complaint() for source in self._sources if not source.synced.is_set()]
        return missing + self.unhealthy()

    async def _synced(self, stopping: asyncio.Event) -> bool:
        """Wait for the first lists, however long they take; False when told to stop meanwhile."""
        for source in self._awaited:
            waits = [asyncio.create_task(e.wait()) for e in (source.synced, stopping)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return not stopping.is_set()

    async def _lead(self, stopping: asyncio.Event) -> None:
        with metrics.LEADING.track_inprogress():
            async with asyncio.TaskGroup() as group:
                for controller in self._led:
                    group.create_task(self._controller(controller, stopping))

    async def _controller(
        self, controller: Controller[Any, Any, Any], stopping: asyncio.Event
    ) -> None:
        name = f"controller {controller.name}"
        await supervised(name, lambda: controller.run(stopping, self._grace), stopping)
