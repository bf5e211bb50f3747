"""Circles of dead objects are found, but not while somebody waits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from boilerhouse.cli import garbage
from boilerhouse.loop.rightofway import RightOfWay


class Circle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def much_was_made() -> Iterator[None]:
    """Let it look as if a million objects had been made, and nobody else collect meanwhile."""
    before = gc.get_threshold()
    gc.set_threshold(1, 0, 1 << 30)
    made = []
    while gc.get_count()[2] < garbage.WORTH_IT:
        made.append(Circle())
    gc.disable()
    yield
    gc.enable()
    gc.set_threshold(*before)


@pytest.mark.looptime
async def test_waits_for_a_quiet_moment(much_was_made: None) -> None:
    """While a claim is being answered nothing is looked for; right afterwards it is."""
    way, stopping = RightOfWay(longest=300), asyncio.Event()
    dead = weakref.ref(Circle())
    task = asyncio.create_task(garbage.collect_when_quiet(way, stopping))
    with way.taken():
        await asyncio.sleep(garbage.PERIOD + 5)
        assert dead() is not None
    await asyncio.sleep(1)
    assert dead() is None
    stopping.set()
    await task


@pytest.mark.looptime
async def test_does_not_wait_for_ever(much_was_made: None) -> None:
    """Under a load that never pauses, memory is got back all the same."""
    way, stopping = RightOfWay(longest=300), asyncio.Event()
    dead = weakref.ref(Circle())
    task = asyncio.create_task(garbage.collect_when_quiet(way, stopping))
    with way.taken():
        await asyncio.sleep(garbage.PERIOD + garbage.PATIENCE + 1)
        assert dead() is None
    stopping.set()
    await task


@pytest.mark.looptime
async def test_nothing_made_nothing_looked_for() -> None:
    """An idle process does not look at everything again and again."""
    gc.collect()
    gc.disable()
    dead = weakref.ref(Circle())
    stopping = asyncio.Event()
    task = asyncio.create_task(garbage.collect_when_quiet(RightOfWay(), stopping))
    try:
        await asyncio.sleep(10 * garbage.PERIOD)
        assert dead() is not None
    finally:
        gc.enable()
        stopping.set()
        await task
