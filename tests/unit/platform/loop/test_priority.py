"""The gate: background work waits for the foreground, a moment, and never for ever."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from boilerhouse.core.clock import SystemClock, new_rng
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import FOREGROUND, NORMAL, Gate
from boilerhouse.platform.loop.recorder import Recorder

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_nobody_waits_when_nobody_is_there() -> None:
    """Without anybody in the foreground background work goes on at once."""
    began = now()
    await Gate().turn()
    assert now() == began


async def test_background_waits_for_a_pause() -> None:
    """It goes on a moment after the last one has left the foreground."""
    gate = Gate(pause=0.005)
    began = now()
    with gate.foreground():
        waiting = asyncio.create_task(gate.turn())
        await asyncio.sleep(0.1)
        with gate.foreground():
            await asyncio.sleep(0.1)
        assert not waiting.done()
    await waiting
    assert now() - began == pytest.approx(0.205)


async def test_a_row_of_claims_is_not_interrupted() -> None:
    """Who comes again before the moment has passed keeps the way."""
    gate = Gate(pause=0.005)
    waiting: asyncio.Task[None] | None = None
    for _ in range(20):
        with gate.foreground():
            waiting = waiting or asyncio.create_task(gate.turn())
            await asyncio.sleep(0.003)
        await asyncio.sleep(0.002)
        assert not waiting.done()
    await asyncio.sleep(0.004)
    assert waiting is not None and waiting.done()


async def test_nothing_starves() -> None:
    """Under a load that never pauses background work waits for its longest, and then happens."""
    gate = Gate(longest=1.0)
    with gate.foreground():
        await asyncio.sleep(0.9)
        with gate.foreground():
            began = now()
            await asyncio.gather(gate.turn(), gate.turn(waited=0.4), gate.turn(waited=5))
            assert now() - began == pytest.approx(1.0)


async def test_who_waits_long_does_not_count() -> None:
    """A claim that waits for room for minutes does not hold back a pool for minutes."""
    gate = Gate(pause=0.005, longest=1.0)
    began = now()
    with gate.foreground():
        await gate.turn()
        assert now() - began == pytest.approx(1.0, abs=0.01)
        await asyncio.sleep(0.1)
        assert gate.is_clear
    assert gate.is_clear


async def test_giving_up_leaves_nothing_behind() -> None:
    """A wait that is cancelled is forgotten."""
    gate = Gate()
    with gate.foreground():
        waiting = asyncio.create_task(gate.turn())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait({waiting})
    await gate.turn()
    assert waiting.cancelled()


async def background(gate: Gate, seconds: float, ran: list[float]) -> None:
    await gate.turn()
    with gate.background():
        ran.append(round(now(), 3))
        await asyncio.sleep(seconds)


async def test_while_claims_come_in_few_work_beside_each_other() -> None:
    """Between two claims at most a few pieces are under way, in the order in which they came."""
    gate = Gate(pause=0.005, few=2)
    began: list[tuple[int, float]] = []
    under_way = 0
    most = 0

    async def piece(number: int) -> None:
        nonlocal under_way, most
        await gate.turn()
        with gate.background():
            began.append((number, now()))
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.02)
            under_way -= 1

    with gate.foreground():
        pieces = [asyncio.create_task(piece(number)) for number in range(10)]
        await asyncio.sleep(0.01)
    await asyncio.gather(*pieces)
    assert most == 2
    assert [number for number, _ in began] == list(range(10))


async def test_without_claims_there_is_no_limit() -> None:
    """A second after the last claim all of them begin at once."""
    gate = Gate(few=2)
    with gate.foreground():
        pass
    await asyncio.sleep(1.1)
    ran: list[float] = []
    began = round(now(), 3)
    await asyncio.gather(*(background(gate, 0.05, ran) for _ in range(10)))
    assert ran == [began] * 10


async def test_claims_find_few_in_their_way() -> None:
    """A claim every tenth of a second: none of fifty pieces begins while one is answered."""
    gate = Gate(pause=0.005, few=2)
    ran: list[float] = []
    claims: list[tuple[float, float]] = []
    pieces: list[asyncio.Task[None]] = []
    for _ in range(20):
        began = now()
        with gate.foreground():
            if not pieces:
                pieces = [asyncio.create_task(background(gate, 0.04, ran)) for _ in range(50)]
            await asyncio.sleep(0.01)
        claims.append((began, now()))
        await asyncio.sleep(0.09)
    await asyncio.gather(*pieces)
    assert len(ran) == 50
    assert not [at for at in ran for began, ended in claims if began < at < ended]


async def test_what_has_waited_long_enough_does_not_come_all_at_once() -> None:
    """Under a load that never pauses fifty pieces are through a moment after their longest wait,
    and never two of them within a pause."""
    gate = Gate(pause=0.005, longest=1.0)
    ran: list[float] = []
    began = now()
    with gate.foreground():
        pieces = [asyncio.create_task(background(gate, 0.001, ran)) for _ in range(50)]
        for _ in range(40):
            with gate.foreground():
                await asyncio.sleep(0.05)
    await asyncio.gather(*pieces)
    assert ran[0] - began == pytest.approx(1.0, abs=0.01)
    assert ran[-1] - began <= 1.0 + 50 * 0.005 + 0.01
    assert min(later - earlier for earlier, later in itertools.pairwise(ran)) >= 0.004


@pytest.mark.slow
async def test_however_many_wait_they_are_through_in_time() -> None:
    """Ten thousand pieces under a load that never pauses: half a second after the longest wait."""
    gate = Gate(pause=0.005, longest=1.0)
    ran: list[float] = []
    began = now()
    with gate.foreground():
        pieces = [asyncio.create_task(background(gate, 0, ran)) for _ in range(10_000)]
        for _ in range(40):
            with gate.foreground():
                await asyncio.sleep(0.05)
    await asyncio.gather(*pieces)
    assert max(ran) - began < 3.5


async def test_a_turn_that_nobody_takes_is_not_lost() -> None:
    """Who is let through and does not say that it works holds up nobody."""
    gate = Gate(pause=0.005, few=1)
    with gate.foreground():
        waiting = [asyncio.create_task(gate.turn()) for _ in range(5)]
        await asyncio.sleep(0.01)
    began = now()
    await asyncio.gather(*waiting)
    assert now() - began == pytest.approx(5 * 0.005, abs=0.001)


async def test_what_is_wanted() -> None:
    """A claim that waits for its tenant's own release is known for as long as it waits."""
    gate = Gate(longest=1.0)
    with gate.foreground("a"), gate.foreground("a"), gate.foreground():
        await asyncio.sleep(5)
        assert gate.is_wanted("a")
        assert not gate.is_wanted("b")
    assert not gate.is_wanted("a")


class Passes:
    """A controller whose keys `low-…` give way, and when each of its passes ran."""

    def __init__(self, gate: Gate, workers: int = 1) -> None:
        self.ran: list[tuple[str, float]] = []
        self.controller: Controller[str, str, str] = Controller(
            "test",
            read=self._read,
            decide=lambda seen: seen,
            apply=self._apply,
            keys=lambda: (),
            clock=SystemClock(),
            rng=new_rng(1),
            recorder=Recorder(),
            workers=workers,
            gate=gate,
            priority=lambda key: NORMAL if key.startswith("low") else FOREGROUND,
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
    gate = Gate()
    async with Passes(gate) as passes:
        queue = passes.controller.queue
        with gate.foreground():
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
    gate = Gate()
    async with Passes(gate) as passes:
        with gate.foreground():
            for _ in range(5):
                passes.controller.queue.add("low")
                await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        assert [key for key, _ in passes.ran] == ["low"]


async def test_held_back_keys_are_not_forgotten() -> None:
    """While the foreground never rests, a key is looked at after the longest time."""
    gate = Gate(longest=1.0)
    async with Passes(gate) as passes:
        began = now()
        passes.controller.queue.add("low")
        for _ in range(30):
            with gate.foreground():
                await asyncio.sleep(0.1)
        [(key, when)] = passes.ran
        assert key == "low" and when - began == pytest.approx(1.0, abs=0.01)


async def test_what_is_left_of_an_object_that_was_waited_for_gives_way() -> None:
    """Whoever waits for an object and has it by now does not hurry what else happened to it."""
    gate = Gate()
    async with Passes(gate) as passes:
        with gate.foreground("low"):
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
    gate = Gate()
    with gate.foreground():
        async with Passes(gate) as passes:
            passes.controller.queue.add("low")
            await asyncio.sleep(0.01)
            began = now()
        assert now() == began
    assert passes.ran == []


async def test_keys_that_give_way_take_turns_while_claims_come_in() -> None:
    """Sixteen workers do not run sixteen passes that nobody waits for, in the way of the next."""
    gate = Gate(few=2)
    under_way, most = 0, 0

    async def apply(key: str, seen: str, plan: str) -> timedelta | None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        passes.ran.append((key, now()))
        return None

    passes = Passes(gate, workers=16)
    passes.controller._apply = apply
    async with passes:
        with gate.foreground():
            for number in range(30):
                passes.controller.queue.add(f"low-{number}")
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert (most, len(passes.ran)) == (2, 30)
