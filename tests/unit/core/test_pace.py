"""How many small messages of one connection are taken in a second."""

from __future__ import annotations

import asyncio

import pytest

from boilerhouse.core.pace import Pace


@pytest.mark.looptime
async def test_a_burst_is_let_through_and_then_a_steady_rate() -> None:
    loop = asyncio.get_running_loop()
    pace = Pace(100)
    began = loop.time()
    for _ in range(100):
        await pace.spend()
    assert loop.time() == began, "a burst waits for nothing"
    for _ in range(200):
        await pace.spend()
    assert loop.time() - began == pytest.approx(2, abs=0.1)


@pytest.mark.looptime
async def test_who_was_quiet_has_a_burst_again_and_no_more() -> None:
    loop = asyncio.get_running_loop()
    pace = Pace(10)
    await pace.spend(10)
    await asyncio.sleep(60)
    began = loop.time()
    await pace.spend(10)
    assert loop.time() - began < 0.2
    await pace.spend(10)
    assert loop.time() - began == pytest.approx(1, abs=0.2)
