"""Circles of dead objects are found, but not while somebody waits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from boilerhouse.platform.loop.priority import RECENT, Gate
from boilerhouse.run import garbage

pytestmark = [pytest.mark.looptime, pytest.mark.slow]


class Circle:
    def __init__(self) -> None:
        self.itself = self


def dead() -> weakref.ref[Circle]:
    """Return a dead circle that is older than what is made after it."""
    circle = Circle()
    found = weakref.ref(circle)
    gc.collect(0)
    return found


@pytest.fixture(autouse=True)
def nobody_else_looks() -> Iterator[None]:
    gc.collect()
    garbage.collect_seldom()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return what the process has, the last of them now."""
    bytes_now = [100 << 20]
    monkeypatch.setattr(garbage, "resident", lambda: bytes_now[-1])
    return bytes_now


@asynccontextmanager
async def collecting(gate: Gate) -> AsyncIterator[None]:
    stopping = asyncio.Event()
    task = asyncio.create_task(garbage.collect_when_quiet(gate, stopping))
    await asyncio.sleep(0)
    yield
    stopping.set()
    await task


async def claims(gate: Gate, seconds: float) -> None:
    """Have one every half a second, so that nobody can call it quiet."""
    for _ in range(int(seconds * 2)):
        with gate.foreground():
            await asyncio.sleep(0.01)
        await asyncio.sleep(RECENT / 2)


async def test_nothing_is_looked_for_while_claims_are_expected(memory: list[int]) -> None:
    """A second after the last of them everything is."""
    gate = Gate()
    async with collecting(gate):
        circle = dead()
        made: list[list[int]] = [[] for _ in range(garbage.OBJECTS + 1000)]
        await claims(gate, garbage.PATIENCE / 2)
        assert circle() is not None
        await asyncio.sleep(RECENT)
        assert circle() is None
    assert made


async def test_a_circle_of_few_objects_may_hold_much(memory: list[int]) -> None:
    """Memory that has grown is a reason to look, too."""
    async with collecting(Gate()):
        circle = dead()
        memory.append(memory[-1] + garbage.MEMORY - 1)
        await asyncio.sleep(100)
        assert circle() is not None
        memory.append(memory[0] + garbage.MEMORY)
        await asyncio.sleep(2 * garbage.PERIOD)
        assert circle() is None


async def test_what_was_looked_at_does_not_count_again(memory: list[int]) -> None:
    """What is kept is not a reason to look for it again and again."""
    async with collecting(Gate()):
        made: list[list[int]] = [[] for _ in range(garbage.OBJECTS + 1000)]
        memory.append(memory[-1] + garbage.MEMORY)
        await asyncio.sleep(2 * garbage.PERIOD)
        circle = dead()
        await asyncio.sleep(100)
        assert circle() is not None
    assert made


async def test_a_load_that_never_pauses_does_not_keep_memory(memory: list[int]) -> None:
    """After a minute everything is looked at whoever waits."""
    gate = Gate(longest=300)
    async with collecting(gate):
        with gate.foreground():
            circle = dead()
            made: list[list[int]] = [[] for _ in range(garbage.OBJECTS + 1000)]
            await asyncio.sleep(garbage.PATIENCE - 5)
            assert circle() is not None
            await asyncio.sleep(10)
            assert circle() is None
    assert made


async def test_very_much_is_not_put_up_with_for_a_minute(memory: list[int]) -> None:
    """Whoever waits."""
    gate = Gate(longest=300)
    async with collecting(gate):
        with gate.foreground():
            circle = dead()
            memory.append(memory[-1] + garbage.TOO_MUCH * garbage.MEMORY)
            await asyncio.sleep(2 * garbage.PERIOD)
            assert circle() is None


async def test_what_was_there_at_first_is_not_looked_at(memory: list[int]) -> None:
    """It is what a start makes, and that is kept."""
    circle = dead()
    async with collecting(Gate()):
        memory.append(memory[-1] + garbage.MEMORY)
        await asyncio.sleep(2 * garbage.PERIOD)
    assert circle() is not None


async def test_nothing_made_nothing_looked_for() -> None:
    """An idle process does not look again and again."""
    async with collecting(Gate()):
        circle = dead()
        await asyncio.sleep(100)
        assert circle() is not None


def test_the_memory_of_this_process() -> None:
    """It is no less than a Python needs, and grows with what is made."""
    before = garbage.resident()
    much = bytearray(b"\1" * (32 << 20))
    assert 4 << 20 < before <= garbage.resident() - (24 << 20)
    assert len(much)
