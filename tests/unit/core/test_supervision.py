"""Supervised tasks: what dies is seen, and started again."""

from __future__ import annotations

import asyncio

import pytest

from boilerhouse.core.supervision import (
    LONGEST_DELAY_SECONDS,
    RECOVERED_SECONDS,
    complaints,
    supervised,
)

pytestmark = pytest.mark.looptime


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_a_task_that_dies_is_named_and_started_again() -> None:
    """Health names it and its error until its next life has lasted a while."""
    lives = 0

    async def run() -> None:
        nonlocal lives
        lives += 1
        if lives < 3:
            raise OSError("no room")
        await asyncio.Event().wait()

    task = asyncio.create_task(supervised("monitor", run))
    await asyncio.sleep(0.05)
    assert complaints() == ["monitor failed and is started again: OSError: no room"]
    await asyncio.sleep(1)
    assert lives == 3
    assert complaints(), "a moment is no proof"
    await asyncio.sleep(RECOVERED_SECONDS)
    assert complaints() == []
    await end(task)


async def test_a_task_that_ends_by_itself_has_died_too() -> None:
    """What is to run for ever and returns does nothing any more, whatever it thinks."""

    async def run() -> None:
        return

    task = asyncio.create_task(supervised("monitor", run))
    await asyncio.sleep(0.05)
    [told] = complaints()
    assert "it ended although nothing told it to" in told
    await end(task)
    assert complaints() == [], "nothing is left of a task that its owner has ended"


async def test_lives_are_started_ever_more_slowly() -> None:
    """A task that always dies costs next to nothing."""
    lives = 0

    async def run() -> None:
        nonlocal lives
        lives += 1
        raise ValueError

    task = asyncio.create_task(supervised("monitor", run))
    await asyncio.sleep(10 * LONGEST_DELAY_SECONDS)
    assert 10 < lives < 25
    assert complaints() == ["monitor failed and is started again: ValueError"]
    await end(task)


async def test_a_task_that_was_told_to_stop_is_not_started_again() -> None:
    """Returning, or failing, while everything stops is an end."""
    stopping = asyncio.Event()

    async def run() -> None:
        await stopping.wait()
        raise OSError("too late")

    async def orderly() -> None:
        await stopping.wait()

    tasks = [asyncio.create_task(supervised("part", one, stopping)) for one in (run, orderly)]
    await asyncio.sleep(1)
    stopping.set()
    await asyncio.gather(*tasks)
    assert complaints() == []


async def test_a_task_that_may_end_is_not_started_again_when_it_does() -> None:
    """What has an end of its own (the probes of a container) is only helped past its failures."""
    lives = 0

    async def run() -> None:
        nonlocal lives
        lives += 1
        if lives == 1:
            raise OSError("no room")

    await supervised("probes", run, may_end=True)
    assert lives == 2
    assert complaints() == []
