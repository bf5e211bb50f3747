"""When a container is asked, and what its answers do, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from boilerhouse.embedded.kubelet.containers.probes import Probe, Timing

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


class Answers:
    """A container that answers by a rule of time; counts how often it is asked."""

    def __init__(self, well: Callable[[float], bool]) -> None:
        self.asked: list[float] = []
        self._well = well

    async def __call__(self) -> str | None:
        self.asked.append(now())
        return None if self._well(now()) else "no"


async def test_the_first_success_is_found_within_a_twentieth() -> None:
    """Asked every 5 ms at first, so 60 ms are not rounded up to a period; later more rarely."""
    quick = Answers(lambda time: time >= 0.06)
    assert await Probe(Timing(period=10), quick).succeeds()
    assert now() == pytest.approx(0.06, abs=0.006)
    began = now()
    slow = Answers(lambda time: time - began >= 20)
    assert await Probe(Timing(period=10, failures=10), slow).succeeds()
    assert now() - began < 21.1
    assert len(slow.asked) < 250


async def test_who_does_not_answer_at_once_is_told_of_once() -> None:
    """Somebody may have to do something before it can start."""
    told: list[float] = []
    quick = Answers(lambda _: True)
    assert await Probe(Timing(period=10), quick).succeeds(lambda: told.append(now()))
    assert told == []
    slow = Answers(lambda time: time >= 3)
    assert await Probe(Timing(period=10), slow).succeeds(lambda: told.append(now()))
    assert told == [0]


async def test_who_says_when_it_is_worth_asking_is_asked_then() -> None:
    """At that moment, and hardly before."""
    news = asyncio.Event()
    ready = Answers(lambda time: time >= 0.03)
    asyncio.get_running_loop().call_later(0.03, news.set)
    timing = Timing.of({"periodSeconds": 10}, news=True)
    assert await Probe(timing, ready, news).succeeds()
    assert ready.asked == pytest.approx([0, 0.03])


async def test_failures_are_counted_in_periods() -> None:
    """Questions in between do not use up the threshold."""
    never = Answers(lambda _: False)
    assert not await Probe(Timing(period=2, failures=3), never).succeeds()
    assert now() == pytest.approx(4, abs=0.3)


async def test_readiness_comes_and_goes() -> None:
    """Thresholds in a row, both ways; after the first success only once a period."""
    answers = Answers(lambda time: not 10.5 < time < 20.5)
    told: list[tuple[float, bool]] = []
    probe = Probe(Timing(period=1, failures=3), answers)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await probe.follow(lambda ready: told.append((round(now()), ready)))
    assert told == [(0, True), (13, False), (21, True)]
    assert len(answers.asked) < 35


async def test_readiness_needs_its_successes_in_a_row() -> None:
    """One good answer is not enough where two are asked for."""
    answers = Answers(lambda time: time < 0.5 or time >= 5)
    told: list[float] = []
    probe = Probe(Timing(period=1, successes=2), answers)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20):
            await probe.follow(lambda _: told.append(now()))
    assert told == [pytest.approx(6, abs=0.1)]


async def test_liveness_fails_only_in_a_row() -> None:
    """A good answer in between begins the count anew; the delay at the start is kept."""
    answers = Answers(lambda time: time < 20 or 24 < time < 30)
    await Probe(Timing(initial_delay=5, period=2, failures=3), answers).fails()
    assert answers.asked[0] == pytest.approx(5)
    assert now() == pytest.approx(35, abs=2.1)


async def test_a_failure_is_told_once_a_period() -> None:
    """Asked every 5 ms and told once a second: people read it, and each is an Event."""
    told: list[float] = []
    answers = Answers(lambda time: time >= 5.5)
    probe = Probe(Timing(period=1), answers, failing=lambda why: told.append(now()))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await probe.follow(lambda _: None)
    assert 4 <= len(told) <= 5
    assert told[0] == pytest.approx(1, abs=0.1)
    assert all(later - earlier > 0.89 for earlier, later in itertools.pairwise(told))


async def test_one_that_only_starts_is_not_told_of() -> None:
    """Nearly every program answers only after a moment: that is no failure to tell of."""
    told: list[str] = []
    quick = Answers(lambda time: time >= 0.5)
    assert await Probe(Timing(period=10), quick, failing=told.append).succeeds()
    assert told == []


async def test_a_slow_start_and_a_failing_life_are_told_of() -> None:
    """Each failure but the last, which ends the container and is told with that."""
    told: list[str] = []
    never = Answers(lambda _: False)
    assert not await Probe(Timing(period=2, failures=3), never, failing=told.append).succeeds()
    assert told == ["no", "no"]
    told.clear()
    await Probe(Timing(period=2, failures=3), never, failing=told.append).fails()
    assert told == ["no", "no"]
