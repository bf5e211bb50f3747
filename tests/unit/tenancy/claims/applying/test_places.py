"""Places: so many at a time, in order, and who is in a hurry first."""

from __future__ import annotations

import asyncio

import pytest

from boilerhouse.tenancy.claims.applying.places import Places

pytestmark = pytest.mark.looptime


class Queue:
    """Work of a second each; `order` is in which they began."""

    def __init__(self, count: int) -> None:
        self.places = Places(count)
        self.order: list[str] = []
        self.under_way = 0
        self.most = 0

    async def work(self, who: str, *, first: bool = False) -> None:
        async with self.places.place(who, first=first):
            self.order.append(who)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(1)
            self.under_way -= 1

    def begin(self, who: str, *, first: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(self.work(who, first=first))


async def test_a_few_at_a_time_in_the_order_they_came() -> None:
    """Ten pieces of work of a second each, two at a time, take five seconds."""
    queue = Queue(2)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(queue.work(str(number)) for number in range(10)))
    assert queue.order == [str(number) for number in range(10)]
    assert queue.most == 2
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)


async def test_who_is_in_a_hurry_goes_before_the_others() -> None:
    """It has the next place that is free, however many came before it."""
    queue = Queue(1)
    tasks = [queue.begin(who) for who in "abc"]
    await asyncio.sleep(0.5)
    tasks.append(queue.begin("hurried", first=True))
    await asyncio.gather(*tasks)
    assert queue.order == ["a", "hurried", "b", "c"]


async def test_one_that_waits_may_come_to_be_in_a_hurry() -> None:
    """Told so while it waits, it goes next; to hurry who does not wait changes nothing."""
    queue = Queue(1)
    tasks = [queue.begin(who) for who in "abcd"]
    await asyncio.sleep(0.5)
    queue.places.hurry("c")
    queue.places.hurry("nobody")
    await asyncio.gather(*tasks)
    assert queue.order == ["a", "c", "b", "d"]


async def test_it_is_known_who_waits() -> None:
    """From when there is no place until there is one."""
    queue = Queue(1)
    tasks = [queue.begin(who) for who in "ab"]
    await asyncio.sleep(0.5)
    assert (queue.places.waits("a"), queue.places.waits("b")) == (False, True)
    await asyncio.sleep(1)
    assert not queue.places.waits("b")
    await asyncio.gather(*tasks)


async def test_who_only_waits_may_leave_its_place() -> None:
    """The next has it at once, and it is given on once only."""
    queue = Queue(1)
    tasks = [queue.begin(who) for who in "abc"]
    await asyncio.sleep(0.5)
    queue.places.leave("a")
    queue.places.leave("a")
    queue.places.leave("b")  # has none yet: nothing to give
    await asyncio.sleep(0.1)
    assert (queue.places.waits("b"), queue.places.waits("c")) == (False, True)
    await asyncio.gather(*tasks)
    assert queue.places._free == 1


@pytest.mark.parametrize("turns", range(3))
async def test_who_leaves_takes_no_place_along(turns: int) -> None:
    """Cancelled while it waits, or in the very moment in which it is given a place."""
    queue = Queue(1)
    first, second, third = (queue.begin(who) for who in "abc")
    await asyncio.sleep(0.999)
    if turns:
        await asyncio.sleep(0.001)
    if turns > 1:
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({first, second, third})
    assert not third.cancelled()
    await queue.work("d")
    assert queue.order[-2:] == ["c", "d"]
    assert queue.places._free == 1
