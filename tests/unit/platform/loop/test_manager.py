"""A Manager of sources that are no informers, and controllers of keys that are no objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from boilerhouse.core.clock import SystemClock, new_rng
from boilerhouse.core.errors import Conflict, Overloaded
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.manager import Manager
from boilerhouse.platform.loop.recorder import Recorder

pytestmark = pytest.mark.looptime


class Table:
    """Rows of numbers that somebody else fills."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.rows = {1: 0, 2: 0}
        self.wrong = "rows: not read yet"
        self.ran = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.ran = True
        yield
        self.ran = False

    def complaint(self) -> str:
        return self.wrong

    def filled(self) -> None:
        self.wrong = ""
        self.synced.set()


class Turns:
    """Leads when it is told to, and until it is told to stop."""

    def __init__(self) -> None:
        self.elected = asyncio.Event()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        await self.elected.wait()
        await lead()


def counting(table: Table, *errors: Exception) -> Controller[int, int, int]:
    """Raise each row to three; some writes fail first."""
    left = list(errors)

    async def read(key: int) -> int | None:
        return table.rows.get(key)

    async def apply(key: int, seen: int, plan: int) -> timedelta | None:
        if left:
            raise left.pop()
        table.rows[key] = plan
        return timedelta(0) if plan < 3 else None

    return Controller(
        "rows",
        read=read,
        decide=lambda seen: min(seen + 1, 3),
        apply=apply,
        keys=lambda: list(table.rows),
        clock=SystemClock(),
        rng=new_rng(1),
        recorder=Recorder(),
        leader_only=True,
    )


async def test_rows_are_driven_once_they_are_known_and_by_the_leader() -> None:
    """Nothing is decided before the source is complete, nor before this process leads."""
    table, turns, stopping = Table(), Turns(), asyncio.Event()
    manager = Manager(sources=[table], controllers=[counting(table)], elector=turns)
    running = asyncio.create_task(manager.run(stopping))
    await asyncio.sleep(1)
    assert table.ran and manager.unready() == ["rows: not read yet"]
    assert manager.unhealthy() == []  # there is nothing yet that could be stale
    table.filled()
    await asyncio.sleep(1)
    assert manager.unready() == [] and table.rows == {1: 0, 2: 0}
    turns.elected.set()
    await asyncio.sleep(1)
    assert table.rows == {1: 3, 2: 3}
    table.wrong = "rows: heard nothing for 99 s"
    assert manager.unhealthy() == manager.unready() == [table.wrong]
    stopping.set()
    await running
    assert not table.ran


class Later(Overloaded):
    @property
    def after(self) -> timedelta:
        return timedelta(seconds=30)


@pytest.mark.parametrize(("error", "not_before"), [(Conflict("other"), 0), (Later("busy"), 29)])
async def test_errors_of_any_store_are_understood(error: Exception, not_before: float) -> None:
    """Somebody was faster: soon again. The other side is busy: when it has asked for it."""
    table, stopping = Table(), asyncio.Event()
    table.rows = {1: 0}
    table.filled()
    manager = Manager(sources=[table], controllers=[counting(table, error)])
    running = asyncio.create_task(manager.run(stopping))
    await asyncio.sleep(not_before)
    assert table.rows == {1: 0}
    await asyncio.sleep(2)
    assert table.rows == {1: 3}
    stopping.set()
    await running
