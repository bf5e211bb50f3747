"""A stream that says nothing for too long is given up, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from boilerhouse.embedded.apiserver.inprocess import bounded
from boilerhouse.platform.kube.status import Unavailable

pytestmark = pytest.mark.looptime


async def spoken(*pauses: float) -> AsyncIterator[bytes]:
    """Say something after each pause."""
    for pause in pauses:
        await asyncio.sleep(pause)
        yield b"x"


async def test_what_comes_in_time_is_passed_on() -> None:
    """Every pause counts by itself: together they may be longer than the bound."""
    assert [piece async for piece in bounded(spoken(4, 4, 4, 4), 5)] == [b"x"] * 4


@pytest.mark.parametrize("before", [(), (0,), (3,), (4.9, 4.9)])
async def test_silence_ends_the_stream(before: tuple[float, ...]) -> None:
    """It is given up when the bound has passed since the last piece, neither sooner nor later."""
    now = asyncio.get_running_loop().time
    heard = 0
    with pytest.raises(Unavailable, match="nothing was heard for 5 s"):
        async for _ in bounded(spoken(*before, 1000), 5):
            heard += 1
    assert heard == len(before)
    assert now() == pytest.approx(sum(before) + 5, abs=0.01)


async def test_a_reader_may_take_its_time() -> None:
    """What the reader does with a piece is not silence, however long it takes."""
    pieces = bounded(spoken(1, 1), 5)
    await anext(pieces)
    await asyncio.sleep(60)
    assert await anext(pieces) == b"x"
    with pytest.raises(StopAsyncIteration):
        await anext(pieces)


async def test_without_a_bound_it_waits() -> None:
    """None is for ever."""
    assert [piece async for piece in bounded(spoken(100_000), None)] == [b"x"]


async def test_to_be_cancelled_is_not_silence() -> None:
    """Whoever cancels the reader gets a cancelled reader."""

    async def read() -> None:
        async for _ in bounded(spoken(1000), 5):
            pass

    reading = asyncio.create_task(read())
    asyncio.get_running_loop().call_later(2, reading.cancel)
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_the_timer_goes_with_the_stream() -> None:
    """A stream that is closed early leaves nothing behind that would cancel its reader later."""
    pieces = bounded(spoken(1, 1000), 5)
    await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]  # a generator
    await asyncio.sleep(100)
