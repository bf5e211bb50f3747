"""Work for a caller who is still there, in a server that goes on: else it is cancelled.

receive() ─► http.disconnect ─┐
                              ├─► cancel ─► the work's own clean-up ─► HungUp | ShuttingDown
Streams.end() ────────────────┘

The server tells a handler of a hang-up only if the handler asks. One that waits (for a claim, for a
command, for the next line of a log) asks here, beside its work. Most work is done before anybody
could hang up, so it is asked once `AT_FIRST` has passed, which tells of a hang-up until then, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from litestar.types import Receive

from boilerhouse.edge.api.errors import Problem

AT_FIRST = 0.05  # seconds
CLIENT_GONE = 499  # never seen by anyone; the word for it in access logs


class HungUp(Problem):
    """The caller is not there any more: there is nobody to answer."""

    def __init__(self) -> None:
        super().__init__(CLIENT_GONE, "ClientGone", "the caller hung up")


class ShuttingDown(Problem):
    """The server stops, and does not wait for what would go on."""

    def __init__(self) -> None:
        super().__init__(503, "ShuttingDown", "the server is stopping; try again")


class Streams:
    """What waits or goes on, so that stopping can end it."""

    def __init__(self) -> None:
        self._ends: set[Callable[[], object]] = set()
        self.stopping = False

    def enter(self, end: Callable[[], object]) -> None:
        """Have `end` called when the server stops, until it leaves."""
        self._ends.add(end)

    def leave(self, end: Callable[[], object]) -> None:
        self._ends.discard(end)

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Cancel this task if the server stops meanwhile."""
        task = asyncio.current_task()
        assert task is not None
        self.enter(task.cancel)
        try:
            yield
        finally:
            self.leave(task.cancel)

    def end(self) -> None:
        """Cut off everything that would go on."""
        self.stopping = True
        for end in list(self._ends):
            end()


class Connected:
    """Cancel the block when the caller hangs up or the server stops, and raise that in its place.

    The request's body must have been read: after it, all that can arrive is the hang-up.
    """

    __slots__ = (
        "_beginning",
        "_gone",
        "_listening",
        "_receive",
        "_stopped",
        "_streams",
        "_working",
    )

    def __init__(self, receive: Receive, streams: Streams) -> None:
        self._receive = receive
        self._streams = streams
        self._gone = False
        self._stopped = False
        self._listening: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        if self._streams.stopping:
            raise ShuttingDown
        loop = asyncio.get_running_loop()
        working = asyncio.current_task(loop)
        assert working is not None
        self._working = working
        self._streams.enter(self._stop)
        self._beginning = loop.call_later(AT_FIRST, self._begin)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nothing is awaited from here on, so a hang-up that comes now finds no victim.
        self._beginning.cancel()
        self._streams.leave(self._stop)
        if self._listening is not None:
            self._listening.cancel()
        if not isinstance(error, asyncio.CancelledError):
            return
        # Ours, or that of whoever cancels the whole request: `uncancel` tells them apart.
        ours = [self._working.uncancel() for mine in (self._gone, self._stopped) if mine]
        if ours and ours[-1] == 0:
            raise (HungUp if self._gone else ShuttingDown)() from None

    def _begin(self) -> None:
        self._listening = asyncio.create_task(self._listen(), name="hang-up")

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._working.cancel()

    def _stop(self) -> None:
        self._stopped = True
        self._working.cancel()
