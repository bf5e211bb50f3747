"""Whose turn it is to start."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from boilerhouse.core import names
from boilerhouse.embedded.kubelet.pod.turns import BESIDE, CLEANED, START_SECONDS, Turns
from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.run.kubelet import pod_priority

pytestmark = pytest.mark.looptime

SPARE = ObjectMeta(name="warm", labels={names.POOL: "pool"})
CLAIMED = ObjectMeta(name="warm", labels={names.POOL: "pool"}, annotations={names.CLAIM: "c/1"})
COLD = ObjectMeta(name="cold")


def turns_of(gate: Gate) -> Turns:
    """Return the turns of Pods by the priority that the product gives them."""
    return Turns(gate, pod_priority(gate))


async def start(turns: Turns, pod: ObjectMeta, seconds: float) -> float:
    """Start a Pod that takes some time; return how long it waited for its turn."""
    came = asyncio.get_running_loop().time()
    async with turns.turn(pod):
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
    return round(began - came, 3)


async def test_spares_start_a_few_at_a_time() -> None:
    """Of five spares two start at once, and each of the others when a place is free."""
    turns = turns_of(Gate())
    waits = await asyncio.gather(*(start(turns, SPARE, 0.1) for _ in range(2 * BESIDE + 1)))
    assert waits == [0.0] * BESIDE + [0.1] * BESIDE + [0.2]


@pytest.mark.parametrize("pod", [CLAIMED, COLD], ids=["claimed", "cold"])
async def test_who_is_waited_for_does_not_wait(pod: ObjectMeta) -> None:
    """A Pod with a claim, or of no pool, starts at once, whoever else does."""
    gate = Gate()
    turns = turns_of(gate)
    with gate.foreground():
        spares = [asyncio.create_task(start(turns, SPARE, 0.1)) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert await start(turns, pod, 0) == 0
    await asyncio.gather(*spares)


async def test_spares_give_way_to_claims() -> None:
    """No spare begins while a claim is being answered."""
    gate = Gate(pause=0.005)
    with gate.foreground():
        spare = asyncio.create_task(start(turns_of(gate), SPARE, 0))
        await asyncio.sleep(0.2)
    assert await spare == pytest.approx(0.205)


async def test_a_spare_that_never_starts_does_not_block_the_pool() -> None:
    """Its place is given to the next one after a while."""
    turns = turns_of(Gate(longest=1.0))
    stuck = [asyncio.create_task(start(turns, SPARE, 1000)) for _ in range(BESIDE)]
    await asyncio.sleep(0)
    assert await start(turns, SPARE, 0) == pytest.approx(START_SECONDS + 1.0)
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)
    waits = await asyncio.gather(*(start(turns, SPARE, 0.1) for _ in range(BESIDE + 1)))
    assert waits == [0.0] * BESIDE + [0.1]


ENDING = ObjectMeta(
    name="inst",
    namespace="dependencies",
    annotations={names.CLAIM: "claim-a/1"},
    deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize("pod", [SPARE, ENDING], ids=["spare", "ending"])
async def test_what_nobody_waits_for_is_written_when_the_way_is_clear(pod: ObjectMeta) -> None:
    """The status of a warm instance, and of one that ends, wait until a claim is answered."""
    gate = Gate(pause=0.005)
    turns = turns_of(gate)

    async def write() -> float:
        async with turns.piece(pod):
            return asyncio.get_running_loop().time()

    with gate.foreground():
        writing = asyncio.create_task(write())
        await asyncio.sleep(0.2)
        assert not writing.done()
        answered = asyncio.get_running_loop().time()
    assert await writing - answered == pytest.approx(0.005)


@pytest.mark.parametrize("pod", [CLAIMED, COLD, ENDING], ids=["claimed", "cold", "wanted"])
async def test_what_somebody_waits_for_is_written_at_once(pod: ObjectMeta) -> None:
    """Also the end of an instance whose tenant claims again and waits for that."""
    gate = Gate()
    turns = turns_of(gate)
    with gate.foreground(Key("dependencies", "claim-a")):
        began = asyncio.get_running_loop().time()
        async with turns.piece(pod):
            assert asyncio.get_running_loop().time() == began


async def test_directories_are_removed_a_few_at_a_time() -> None:
    """Of many Pods that end at once, few have their files removed beside each other."""
    turns = turns_of(Gate())
    began = asyncio.get_running_loop().time()

    async def clean() -> float:
        async with turns.cleaning():
            await asyncio.sleep(0.1)
        return round(asyncio.get_running_loop().time() - began, 3)

    ends = await asyncio.gather(*(clean() for _ in range(2 * CLEANED)))
    assert ends == [0.1] * CLEANED + [0.2] * CLEANED
