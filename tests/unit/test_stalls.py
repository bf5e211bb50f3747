"""The plugin that fails tests whose event loop stalls."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.stalls import STALL_SECONDS, Turns

pytestmark = pytest.mark.slow


def _turns(seconds: float, *, computing: bool) -> list[str]:
    async def stall() -> None:
        await asyncio.sleep(0)
        end = time.thread_time() + seconds
        while computing and time.thread_time() < end:
            pass
        if not computing:
            time.sleep(seconds)  # noqa: ASYNC251  it is what is tried

    turns = Turns()
    turns.begin()
    try:
        asyncio.run(stall())
    finally:
        turns.end()
    return turns.long


@pytest.mark.stalls
def test_a_second_of_processor_time_in_one_turn_is_told_with_its_stack() -> None:
    [told] = _turns(STALL_SECONDS * 1.5, computing=True)
    assert "processor time in one turn" in told
    assert "stall" in told.splitlines()[-1]


def test_waiting_is_not_computing() -> None:
    """A machine that is slow fails no test."""
    assert _turns(STALL_SECONDS * 1.2, computing=False) == []
