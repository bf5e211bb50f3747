"""Circles of dead objects are found, but not while somebody waits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from boilerhouse.cli import garbage
from boilerhouse.loop.rightofway import RECENT, RightOfWay

pytestmark = pytest.mark.looptime


class Circle:
    def __init__(self) -> None:
        self.itself = self


def dead(generation: int) -> weakref.ref[Circle]:
    """Return a dead circle that only a look at this generation finds."""
    circle = Circle()
    found = weakref.ref(circle)
    for younger in range(generation):
        gc.collect(younger)
    return found


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """Let nobody else look, and nothing be worth a look yet."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1 << 30, garbage.ENOUGH, garbage.ENOUGH)
    yield
    gc.set_threshold(*before)


def make_much(generation: int) -> None:
    """Make as much as makes a look at this generation worth it."""
    if generation == 2:
        for _ in range(garbage.ENOUGH):
            gc.collect(1)
    if generation:
        for _ in range(garbage.ENOUGH):
            gc.collect(0)
    if generation == 0:
        made.extend([] for _ in range(garbage.YOUNG))


made: list[object] = []


@asynccontextmanager
async def collecting(way: RightOfWay) -> AsyncIterator[None]:
    stopping = asyncio.Event()
    task = asyncio.create_task(garbage.collect_when_quiet(way, stopping))
    yield
    stopping.set()
    await task


async def test_the_young_are_looked_at_between_claims() -> None:
    """Not while one is answered; in the next pause."""
    way = RightOfWay(longest=300)
    async with collecting(way):
        with way.taken():
            circle = dead(0)
            make_much(0)
            await asyncio.sleep(5)
            assert circle() is not None
        await asyncio.sleep(2 * garbage.PERIOD)
        assert circle() is None


@pytest.mark.parametrize("generation", [1, 2])
async def test_the_old_are_looked_at_when_nobody_is_expected(generation: int) -> None:
    """Claims every half a second keep it off; a second after the last one it comes."""
    way = RightOfWay()
    async with collecting(way):
        circle = dead(generation)
        make_much(generation)
        for _ in range(20):
            with way.taken():
                await asyncio.sleep(0.01)
            await asyncio.sleep(RECENT / 2)
        assert circle() is not None
        await asyncio.sleep(RECENT)
        assert circle() is None


async def test_a_load_that_never_pauses_does_not_keep_memory() -> None:
    """After a minute everything is looked at whoever waits."""
    way = RightOfWay(longest=300)
    async with collecting(way):
        with way.taken():
            circle = dead(2)
            make_much(2)
            await asyncio.sleep(garbage.PATIENCE - 5)
            assert circle() is not None
            await asyncio.sleep(10)
            assert circle() is None


async def test_nothing_made_nothing_looked_for() -> None:
    """An idle process does not look again and again."""
    async with collecting(RightOfWay()):
        circle = dead(0)
        await asyncio.sleep(100)
        assert circle() is not None
