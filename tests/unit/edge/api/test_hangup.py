"""Callers who hang up: early, late, and not at all."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from litestar import Litestar

from boilerhouse.core.clock import SystemClock
from boilerhouse.edge.api.hangup import AT_FIRST, Connected, HungUp, ShuttingDown, Streams
from boilerhouse.edge.api.middleware import OuterMiddleware


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
    with pytest.raises(HungUp), Connected(caller.receive, Streams()):
        await asyncio.sleep(60)
    assert loop.time() - began == pytest.approx(max(after, AT_FIRST))


@pytest.mark.looptime
async def test_work_that_is_done_at_once_asks_nobody() -> None:
    """Neither while it lasts nor afterwards."""
    caller = Caller()
    with Connected(caller.receive, Streams()):
        await asyncio.sleep(AT_FIRST / 2)
    await asyncio.sleep(1)
    assert caller.asked == 0


@pytest.mark.looptime
async def test_somebody_elses_cancel_is_no_hang_up() -> None:
    """Whoever cancels the request gets the cancellation back, and nobody listens any more."""
    caller = Caller()

    async def work() -> None:
        with Connected(caller.receive, Streams()):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caller.asked == 1


@pytest.mark.looptime
async def test_a_server_that_stops_ends_the_work_at_once() -> None:
    """Also what begins after that; a caller who is gone, too, is not told of it."""
    caller, streams, loop = Caller(), Streams(), asyncio.get_running_loop()
    loop.call_later(AT_FIRST * 2, streams.end)
    with pytest.raises(ShuttingDown), Connected(caller.receive, streams):
        await asyncio.sleep(60)
    assert loop.time() == pytest.approx(AT_FIRST * 2)
    with pytest.raises(ShuttingDown), Connected(caller.receive, streams):
        pytest.fail("it has begun")
    both = Streams()
    loop.call_later(AT_FIRST * 2, caller.hang_up)
    loop.call_later(AT_FIRST * 2, both.end)
    with pytest.raises(HungUp), Connected(caller.receive, both):
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)  # time for the second of the two
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_what_is_cut_off_unanswered_is_told_so() -> None:
    """Whoever cancels a request at the door gets the cancellation back; its caller an answer."""
    sent: list[Any] = []

    async def never(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    door = OuterMiddleware(cast("Litestar", never), SystemClock(), lambda: None)
    scope = {"type": "http", "method": "GET", "raw_path": b"/"}
    request = asyncio.create_task(door(scope, Caller().receive, send))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    start, body = sent
    assert start["status"] == 503 and (b"retry-after", b"1") in start["headers"]
    assert b'"ShuttingDown"' in body["body"]
