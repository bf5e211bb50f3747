"""Work for a caller who is still there: a connection that ends cancels what was done for it.

receive() ─► http.disconnect ─► cancel ─► the work's own clean-up ─► HungUp

The server tells a handler of a hang-up only if the handler asks. One that waits (for a claim, for a
command, for the next line of a log) asks here, beside its work. Most work is done before anybody
could hang up, so it is asked once `AT_FIRST` has passed, which tells of a hang-up until then, too.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from litestar.types import Receive

from boilerhouse.api.errors import Problem

AT_FIRST = 0.05  # seconds
CLIENT_GONE = 499  # never seen by anyone; the word for it in access logs


class HungUp(Problem):
    """The caller is not there any more: there is nobody to answer."""

    def __init__(self) -> None:
        super().__init__(CLIENT_GONE, "ClientGone", "the caller hung up")


class Connected:
    """Cancel the block when the caller hangs up, and raise `HungUp` in its place.

    The request's body must have been read: after it, all that can arrive is the hang-up.
    """

    __slots__ = ("_beginning", "_gone", "_listening", "_receive", "_working")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False
        self._listening: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        working = asyncio.current_task(loop)
        assert working is not None
        self._working = working
        self._beginning = loop.call_later(AT_FIRST, self._begin)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nothing is awaited from here on, so a hang-up that comes now finds no victim.
        self._beginning.cancel()
        if self._listening is not None:
            self._listening.cancel()
        # Ours, or that of whoever cancels the whole request: `uncancel` tells them apart.
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and self._gone and self._working.uncancel() == 0:
            raise HungUp from None

    def _begin(self) -> None:
        self._listening = asyncio.create_task(self._listen(), name="hang-up")

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._working.cancel()
