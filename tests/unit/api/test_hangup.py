"""Callers who hang up: early, late, and not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from boilerhouse.api.hangup import AT_FIRST, Connected, HungUp


class Caller:
    """One end of a connection; `asked` counts who wanted to hear of its end."""

    def __init__(self) -> None:
        self.asked = 0
        self._gone = asyncio.Event()

    def hang_up(self) -> None:
        self._gone.set()

    async def receive(self) -> Any:
        self.asked += 1
        await self._gone.wait()
        return {"type": "http.disconnect"}


@pytest.mark.looptime
@pytest.mark.parametrize("after", [0.0, AT_FIRST / 2, AT_FIRST * 2])
async def test_a_hang_up_ends_the_work_whenever_it_comes(after: float) -> None:
    """Also one that came before anybody asked: the work ends as soon as somebody does."""
    caller, loop = Caller(), asyncio.get_running_loop()
    began = loop.time()
    loop.call_later(after, caller.hang_up)
    with pytest.raises(HungUp), Connected(caller.receive):
        await asyncio.sleep(60)
    assert loop.time() - began == pytest.approx(max(after, AT_FIRST))


@pytest.mark.looptime
async def test_work_that_is_done_at_once_asks_nobody() -> None:
    """Neither while it lasts nor afterwards."""
    caller = Caller()
    with Connected(caller.receive):
        await asyncio.sleep(AT_FIRST / 2)
    await asyncio.sleep(1)
    assert caller.asked == 0


@pytest.mark.looptime
async def test_somebody_elses_cancel_is_no_hang_up() -> None:
    """Whoever cancels the request gets the cancellation back, and nobody listens any more."""
    caller = Caller()

    async def work() -> None:
        with Connected(caller.receive):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caller.asked == 1
