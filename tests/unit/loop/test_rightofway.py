"""The right of way: background work waits for the foreground, a moment, and never for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from boilerhouse.core.clock import SystemClock, rng
from boilerhouse.loop.controller import Controller
from boilerhouse.loop.recorder import Recorder
from boilerhouse.loop.rightofway import RightOfWay

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_nobody_waits_when_nobody_is_there() -> None:
    """Without anybody in the foreground background work goes on at once."""
    began = now()
    await RightOfWay().clear()
    assert now() == began


async def test_background_waits_for_a_pause() -> None:
    """It goes on a moment after the last one has left the foreground."""
    way = RightOfWay(pause=0.005)
    began = now()
    with way.taken():
        waiting = asyncio.create_task(way.clear())
        await asyncio.sleep(0.1)
        with way.taken():
            await asyncio.sleep(0.1)
        assert not waiting.done()
    await waiting
    assert now() - began == pytest.approx(0.205)


async def test_a_row_of_claims_is_not_interrupted() -> None:
    """Who comes again before the moment has passed keeps the way."""
    way = RightOfWay(pause=0.005)
    waiting: asyncio.Task[None] | None = None
    for _ in range(20):
        with way.taken():
            waiting = waiting or asyncio.create_task(way.clear())
            await asyncio.sleep(0.003)
        await asyncio.sleep(0.002)
        assert not waiting.done()
    await asyncio.sleep(0.004)
    assert waiting is not None and waiting.done()


async def test_nothing_starves() -> None:
    """Under a load that never pauses background work waits for its longest, and then happens."""
    way = RightOfWay(longest=1.0)
    with way.taken():
        await asyncio.sleep(0.9)
        with way.taken():
            began = now()
            await asyncio.gather(way.clear(), way.clear(waited=0.4), way.clear(waited=5))
            assert now() - began == pytest.approx(1.0)


async def test_who_waits_long_does_not_count() -> None:
    """A claim that waits for room for minutes does not hold back a pool for minutes."""
    way = RightOfWay(pause=0.005, longest=1.0)
    began = now()
    with way.taken():
        await way.clear()
        assert now() - began == pytest.approx(1.0, abs=0.01)
        await asyncio.sleep(0.1)
        assert way.is_clear
    assert way.is_clear


async def test_giving_up_leaves_nothing_behind() -> None:
    """A wait that is cancelled is forgotten."""
    way = RightOfWay()
    with way.taken():
        waiting = asyncio.create_task(way.clear())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait({waiting})
    await way.clear()
    assert waiting.cancelled()


class Passes:
    """A controller whose keys `low-…` give way, and when each of its passes ran."""

    def __init__(self, way: RightOfWay, workers: int = 1) -> None:
        self.ran: list[tuple[str, float]] = []
        self.controller: Controller[str, str, str] = Controller(
            "test",
            read=self._read,
            decide=lambda seen: seen,
            apply=self._apply,
            keys=lambda: (),
            clock=SystemClock(),
            chance=rng(1),
            recorder=Recorder(),
            workers=workers,
            way=way,
            gives_way=lambda key: key.startswith("low"),
        )

    async def _read(self, key: str) -> str:
        return key

    async def _apply(self, key: str, seen: str, plan: str) -> timedelta | None:
        self.ran.append((key, round(now(), 3)))
        return None

    async def __aenter__(self) -> Passes:
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self.controller.run(self._stopping))
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        await self._task


async def test_held_back_keys_keep_no_worker() -> None:
    """With one worker and many keys that give way, a key that does not is looked at at once."""
    way = RightOfWay()
    async with Passes(way) as passes:
        queue = passes.controller.queue
        with way.taken():
            began = now()
            for n in range(10):
                queue.add(f"low-{n}")
            queue.add("high")
            await asyncio.sleep(0.1)
            assert passes.ran == [("high", round(began, 3))]
        await asyncio.sleep(0.01)
        assert sorted(key for key, _ in passes.ran[1:]) == sorted(f"low-{n}" for n in range(10))


async def test_a_key_added_while_it_is_held_back_is_one_pass() -> None:
    """However often an object changes meanwhile, it is looked at once when the way is clear."""
    way = RightOfWay()
    async with Passes(way) as passes:
        with way.taken():
            for _ in range(5):
                passes.controller.queue.add("low")
                await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        assert [key for key, _ in passes.ran] == ["low"]


async def test_held_back_keys_are_not_forgotten() -> None:
    """While the foreground never rests, a key is looked at after the longest time."""
    way = RightOfWay(longest=1.0)
    async with Passes(way) as passes:
        began = now()
        passes.controller.queue.add("low")
        for _ in range(30):
            with way.taken():
                await asyncio.sleep(0.1)
        [(key, when)] = passes.ran
        assert key == "low" and when - began == pytest.approx(1.0, abs=0.01)


async def test_stopping_with_keys_held_back() -> None:
    """A controller that stops does not wait for the way to be clear."""
    way = RightOfWay()
    with way.taken():
        async with Passes(way) as passes:
            passes.controller.queue.add("low")
            await asyncio.sleep(0.01)
            began = now()
        assert now() == began
    assert passes.ran == []
