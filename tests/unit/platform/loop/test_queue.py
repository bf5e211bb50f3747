"""The keyed queue: merging, one holder per key, delays, back-off, closing. In virtual time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from boilerhouse.core.clock import new_rng
from boilerhouse.platform.loop.queue import AT_LEAST_EVERY, Closed, KeyedQueue

pytestmark = pytest.mark.looptime


def opened(**options: timedelta) -> KeyedQueue[str]:
    queue: KeyedQueue[str] = KeyedQueue(rng=new_rng(1), **options)
    queue.open()
    return queue


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_adding_a_waiting_key_again_is_one_pass() -> None:
    """Ten changes of one object before a worker is free are one pass."""
    queue = opened()
    for _ in range(10):
        queue.add("a")
    assert (await queue.take())[0] == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_keys_come_out_in_order_of_arrival() -> None:
    """Nobody overtakes."""
    queue = opened()
    for key in "cab":
        queue.add(key)
    assert [(await queue.take())[0] for _ in range(3)] == ["c", "a", "b"]


async def test_what_is_put_off_comes_behind_everything_that_is_ready() -> None:
    """A key that can wait is handed out when nothing else is ready, and says that it did."""
    queue = opened()
    await asyncio.sleep(AT_LEAST_EVERY)
    queue.put_off("x")
    queue.add("first")
    await queue.take()  # the first of those that were put off is overdue: none had a turn yet
    queue.put_off("y")
    queue.add("a")
    queue.add("b")
    order = [await queue.take() for _ in range(4)]
    assert [(turn.key, turn.was_put_off) for turn in order] == [
        ("first", False),
        ("a", False),
        ("b", False),
        ("y", True),
    ]


async def test_news_of_a_key_that_was_put_off_make_it_ready() -> None:
    """What happens to an object that waits is looked at like any other news, once."""
    queue = opened()
    queue.put_off("a")
    queue.add("a")
    queue.put_off("a")  # it is ready already
    assert len(queue) == 1
    assert not (await queue.take()).was_put_off


async def test_what_is_put_off_has_a_turn_now_and_then_whatever_is_ready() -> None:
    """Under a load that never ends, one key that can wait is handed out every tenth of a second."""
    queue = opened()
    for number in range(5):
        queue.put_off(f"late {number}")
    taken = []
    for number in range(100):
        queue.add(f"busy {number}")
        taken.append(await queue.take())
        await asyncio.sleep(0.01)
    assert [turn.key for turn in taken if turn.was_put_off] == [f"late {n}" for n in range(5)]


async def test_a_key_in_hand_is_not_handed_out_again_until_it_is_given_back() -> None:
    """A change during a pass causes exactly one more, after it."""
    queue = opened()
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert (await queue.take())[0] == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_take_tells_how_long_the_key_waited() -> None:
    """The wait starts when the key becomes ready."""
    queue = opened()
    queue.add("a")
    await asyncio.sleep(3)
    assert (await queue.take())[1] == pytest.approx(3)


async def test_the_earliest_of_several_delays_wins() -> None:
    """A later wish does not postpone an earlier one, an earlier one replaces a later."""
    queue = opened()
    queue.add_after("a", timedelta(seconds=10))
    queue.add_after("a", timedelta(seconds=60))
    queue.add_after("b", timedelta(seconds=60))
    queue.add_after("b", timedelta(seconds=5))
    began = now()
    assert (await queue.take())[0] == "b"
    assert now() - began == pytest.approx(5)
    assert (await queue.take())[0] == "a"
    assert now() - began == pytest.approx(10)
    assert queue.delayed == 0


async def test_an_immediate_wish_cancels_the_delayed_one() -> None:
    """The pass that runs now sees everything the later one would have been for."""
    queue = opened()
    queue.add_after("a", timedelta(seconds=10))
    queue.add("a")
    await queue.take()
    queue.done("a")
    await asyncio.sleep(20)
    assert len(queue) == 0


async def test_a_delay_wished_for_during_a_pass_survives_it() -> None:
    """`again_in` is set while the key is still in hand."""
    queue = opened()
    queue.add("a")
    await queue.take()
    queue.add_after("a", timedelta(seconds=4))
    queue.done("a")
    began = now()
    await queue.take()
    assert now() - began == pytest.approx(4)


async def test_back_off_doubles_with_jitter_up_to_the_cap_and_success_resets_it() -> None:
    """Each failure waits up to twice as long as the last; never beyond the cap."""
    queue = opened(base=timedelta(seconds=1), cap=timedelta(seconds=30))
    for longest in (1, 2, 4, 8, 16, 30, 30):
        delay = queue.back_off("a").total_seconds()
        assert longest / 2 <= delay <= longest
        await queue.take()
        queue.done("a")
    assert queue.failures("a") == 7
    queue.forget("a")
    assert queue.back_off("a").total_seconds() <= 1


async def test_back_off_of_a_key_that_failed_for_years_is_still_the_cap() -> None:
    """The exponent is bounded."""
    queue = opened(cap=timedelta(seconds=30))
    for _ in range(5000):
        assert queue.back_off("a") <= timedelta(seconds=30)


async def test_closing_sends_takers_home_and_drops_what_waits() -> None:
    """After close nothing is handed out, and adding is harmless."""
    queue = opened()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add_after("later", timedelta(seconds=1))
    queue.close()
    with pytest.raises(Closed):
        await taker
    queue.add("a")
    assert (len(queue), queue.delayed) == (0, 0)


async def test_a_queue_not_opened_drops_what_it_is_given() -> None:
    """A process that does not lead must not collect keys for ever."""
    queue: KeyedQueue[str] = KeyedQueue(rng=new_rng(1))
    queue.add("a")
    queue.add_after("b", timedelta(seconds=1))
    assert (len(queue), queue.delayed) == (0, 0)


async def test_a_cancelled_taker_passes_its_turn_on() -> None:
    """A key that woke a taker just as it was cancelled wakes another."""
    queue = opened()
    first = asyncio.create_task(queue.take())
    second = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert (await asyncio.wait_for(second, 1))[0] == "a"


VERBS = ["add", "take", "done", "later", "put off"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from("abc"))))
@settings(max_examples=200, deadline=None)
def test_no_key_is_lost_or_held_twice(script: list[tuple[str, str]]) -> None:
    """Whatever the order of calls, a key added after its last pass began gets another pass."""

    async def run() -> None:
        queue = opened()
        owed: set[str] = set()
        held: set[str] = set()
        for verb, key in script:
            match verb:
                case "add":
                    queue.add(key)
                    owed.add(key)
                case "later":
                    queue.add_after(key, timedelta(0))
                    owed.add(key)
                case "put off" if key not in held:
                    queue.put_off(key)
                    owed.add(key)
                case "take" if len(queue):
                    taken = (await queue.take()).key
                    assert taken not in held
                    held.add(taken)
                    owed.discard(taken)
                case "done" if key in held:
                    held.discard(key)
                    queue.done(key)
        for key in held:
            queue.done(key)
        while owed:
            owed.discard((await asyncio.wait_for(queue.take(), 1)).key)

    asyncio.run(run())


def test_two_wishes_for_now_are_one_under_uvloop() -> None:
    """The production loop's handles know no time of their own; the queue does not ask them."""

    async def wish() -> str:
        queue: KeyedQueue[str] = KeyedQueue(rng=new_rng(1))
        queue.open()
        for delay in (0, 0, 5):
            queue.add_after("a", timedelta(seconds=delay))
        return (await queue.take()).key

    assert uvloop.run(wish()) == "a"


async def test_a_key_in_hand_is_waited_for() -> None:
    """Who wants a key out of turn gets it when it is given back, before the next in turn."""
    queue: KeyedQueue[str] = KeyedQueue(rng=new_rng(1))
    queue.open()
    queue.add("a")
    assert (await queue.take()).key == "a"
    holders = [asyncio.create_task(queue.hold("a")) for _ in range(3)]
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    holders[0].cancel()
    queue.add("a")
    for holder in holders[1:]:
        assert queue.is_in_hand("a")
        assert not holder.done()
        queue.done("a")
        await holder
    assert not taker.done()
    queue.done("a")
    assert (await taker).key == "a"


async def test_a_held_key_is_handed_out_when_it_is_given_back() -> None:
    """What is added while somebody works on a key out of turn waits for it, and is not lost."""
    queue: KeyedQueue[str] = KeyedQueue(rng=new_rng(1))
    queue.open()
    queue.add("a")
    await queue.hold("a")
    assert len(queue) == 0
    queue.add("a")
    queue.done("a")
    assert (await queue.take())[0] == "a"
    queue.done("a")
    assert len(queue) == 0
