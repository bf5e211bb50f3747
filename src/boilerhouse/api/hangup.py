"""Work for a caller who is still there: a connection that ends cancels what was done for it.

receive() ─► http.disconnect ─► cancel ─► the work's own clean-up ─► HungUp

The server tells a handler of a hang-up only if the handler asks. One that waits (for a claim, for a
command, for the next line of a log) asks here, beside its work. Most work is done before anybody
could hang up, so it is asked once `AT_FIRST` has passed, which tells of a hang-up until then, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from litestar.types import Receive

from boilerhouse.api.errors import Problem

AT_FIRST = 0.05  # seconds
CLIENT_GONE = 499  # never seen by anyone; the word for it in access logs


class HungUp(Problem):
    """The caller is not there any more: there is nobody to answer."""

    def __init__(self) -> None:
        super().__init__(CLIENT_GONE, "ClientGone", "the caller hung up")


@asynccontextmanager
async def connected(receive: Receive) -> AsyncGenerator[None]:
    """Cancel the block when the caller hangs up, and raise `HungUp` in its place.

    The request's body must have been read: after it, all that can arrive is the hang-up.
    """
    working = asyncio.current_task()
    assert working is not None
    gone = False
    listening: asyncio.Task[None] | None = None

    async def listen() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        working.cancel()

    def begin() -> None:
        nonlocal listening
        listening = asyncio.create_task(listen(), name="hang-up")

    beginning = asyncio.get_running_loop().call_later(AT_FIRST, begin)
    try:
        yield
    except asyncio.CancelledError:
        # Ours, or that of whoever cancels the whole request: `uncancel` tells them apart.
        if gone and working.uncancel() == 0:
            raise HungUp from None
        raise
    finally:
        # Nothing is awaited from here on, so a hang-up that comes now finds no victim.
        beginning.cancel()
        if listening is not None:
            listening.cancel()
