"""The right of way: background work waits for the foreground, a moment, and never for ever."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from boilerhouse.core.clock import SystemClock, rng
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.platform.loop.rightofway import RightOfWay

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


async def background(way: RightOfWay, seconds: float, ran: list[float]) -> None:
    await way.clear()
    with way.working():
        ran.append(round(now(), 3))
        await asyncio.sleep(seconds)


async def test_while_claims_come_in_few_work_beside_each_other() -> None:
    """Between two claims at most a few pieces are under way, in the order in which they came."""
    way = RightOfWay(pause=0.005, few=2)
    began: list[tuple[int, float]] = []
    under_way = 0
    most = 0

    async def piece(number: int) -> None:
        nonlocal under_way, most
        await way.clear()
        with way.working():
            began.append((number, now()))
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.02)
            under_way -= 1

    with way.taken():
        pieces = [asyncio.create_task(piece(number)) for number in range(10)]
        await asyncio.sleep(0.01)
    await asyncio.gather(*pieces)
    assert most == 2
    assert [number for number, _ in began] == list(range(10))


async def test_without_claims_there_is_no_limit() -> None:
    """A second after the last claim all of them begin at once."""
    way = RightOfWay(few=2)
    with way.taken():
        pass
    await asyncio.sleep(1.1)
    ran: list[float] = []
    began = round(now(), 3)
    await asyncio.gather(*(background(way, 0.05, ran) for _ in range(10)))
    assert ran == [began] * 10


async def test_claims_find_few_in_their_way() -> None:
    """A claim every tenth of a second: none of fifty pieces begins while one is answered."""
    way = RightOfWay(pause=0.005, few=2)
    ran: list[float] = []
    claims: list[tuple[float, float]] = []
    pieces: list[asyncio.Task[None]] = []
    for _ in range(20):
        began = now()
        with way.taken():
            if not pieces:
                pieces = [asyncio.create_task(background(way, 0.04, ran)) for _ in range(50)]
            await asyncio.sleep(0.01)
        claims.append((began, now()))
        await asyncio.sleep(0.09)
    await asyncio.gather(*pieces)
    assert len(ran) == 50
    assert not [at for at in ran for began, ended in claims if began < at < ended]


async def test_what_has_waited_long_enough_does_not_come_all_at_once() -> None:
    """Under a load that never pauses fifty pieces are through a moment after their longest wait,
    and never two of them within a pause."""
    way = RightOfWay(pause=0.005, longest=1.0)
    ran: list[float] = []
    began = now()
    with way.taken():
        pieces = [asyncio.create_task(background(way, 0.001, ran)) for _ in range(50)]
        for _ in range(40):
            with way.taken():
                await asyncio.sleep(0.05)
    await asyncio.gather(*pieces)
    assert ran[0] - began == pytest.approx(1.0, abs=0.01)
    assert ran[-1] - began <= 1.0 + 50 * 0.005 + 0.01
    assert min(later - earlier for earlier, later in itertools.pairwise(ran)) >= 0.004


async def test_however_many_wait_they_are_through_in_time() -> None:
    """Ten thousand pieces under a load that never pauses: half a second after the longest wait."""
    way = RightOfWay(pause=0.005, longest=1.0)
    ran: list[float] = []
    began = now()
    with way.taken():
        pieces = [asyncio.create_task(background(way, 0, ran)) for _ in range(10_000)]
        for _ in range(40):
            with way.taken():
                await asyncio.sleep(0.05)
    await asyncio.gather(*pieces)
    assert max(ran) - began < 3.5


async def test_a_turn_that_nobody_takes_is_not_lost() -> None:
    """Who is let through and does not say that it works holds up nobody."""
    way = RightOfWay(pause=0.005, few=1)
    with way.taken():
        waiting = [asyncio.create_task(way.clear()) for _ in range(5)]
        await asyncio.sleep(0.01)
    began = now()
    await asyncio.gather(*waiting)
    assert now() - began == pytest.approx(5 * 0.005, abs=0.001)


async def test_what_is_wanted() -> None:
    """A claim that waits for its tenant's own release is known for as long as it waits."""
    way = RightOfWay(longest=1.0)
    with way.taken("a"), way.taken("a"), way.taken():
        await asyncio.sleep(5)
        assert way.is_wanted("a")
        assert not way.is_wanted("b")
    assert not way.is_wanted("a")


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


async def test_what_is_left_of_an_object_that_was_waited_for_gives_way() -> None:
    """Whoever waits for an object and has it by now does not hurry what else happened to it."""
    way = RightOfWay()
    async with Passes(way) as passes:
        with way.taken("low"):
            passes.controller.queue.add("low")
            await passes.controller.run_until("low", lambda: True)
            await asyncio.sleep(0.1)
            assert len(passes.ran) == 1
            passes.controller.queue.add("low")  # news of what somebody waits for
            await asyncio.sleep(0.1)
            assert len(passes.ran) == 2
        await asyncio.sleep(0.01)
        assert len(passes.ran) == 3


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


async def test_keys_that_give_way_take_turns_while_claims_come_in() -> None:
    """Sixteen workers do not run sixteen passes that nobody waits for, in the way of the next."""
    way = RightOfWay(few=2)
    under_way, most = 0, 0

    async def apply(key: str, seen: str, plan: str) -> timedelta | None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        passes.ran.append((key, now()))
        return None

    passes = Passes(way, workers=16)
    passes.controller._apply = apply
    async with passes:
        with way.taken():
            for number in range(30):
                passes.controller.queue.add(f"low-{number}")
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert (most, len(passes.ran)) == (2, 30)
