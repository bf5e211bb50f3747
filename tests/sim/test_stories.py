"""Histories that a search is unlikely to find, told step by step.

A story names what happens next by words of it; after its end everything has its way, and is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.sim.sim_fixture import Chaos, World
from tests.sim.test_search import CORDONED, LEAVING


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep log events instead of printing them."""
    with capture_logs():
        yield


class Told:
    """Chooses what the story tells."""

    def __init__(self, *story: str) -> None:
        self.story = list(story)

    def __call__(self, options: list[str]) -> int:
        words = self.story.pop(0)
        for index, option in enumerate(options):
            if all(word in option for word in words.split(" … ")):
                return index
        raise AssertionError(f"{words!r} cannot happen, only {options}")


async def live(world: World, *story: str) -> World:
    one = replace(world, choose=Told(*story), chaos=replace(world.chaos), trace=[])
    await one.run(len(story))
    return one


SAVES = ("helper: save",) * 5  # frozen, streamed, stored, committed, the agent knows


TWICE = (
    "p0 … pass claim",
    "p0 … patch … asked",
    "p0 … patch … answered",
    "p1 … hears boilerhouseclaims",
    "p0 … pass claim",
    "p0 … save … asked",
    *SAVES,
    "p1 … pass claim",
    "p1 … save … asked",
    "volume is full",
    *("helper: save",) * 3,
)


async def test_a_second_save_that_fails_thaws_nobody() -> None:
    """One process knows that all is saved and is about to delete; another saves once more."""
    fills = replace(LEAVING, chaos=Chaos(full_volumes=1))
    await live(fills, *TWICE)
    with pytest.raises(AssertionError, match="writes' cannot happen"):
        await live(fills, *TWICE, "tenant in p4: writes")


FAILS = (
    "p0 … pass claim",
    "p0 … save … asked",
    *("helper: save",) * 3,
    "some seconds pass",
)
CLAIMED_AGAIN = (
    "p0 … acquire",
    "p0 … get boilerhouseclaims … asked",
    "p0 … patch … asked",
    "p0 … patch … answered",
    "p0 … thaw … asked",
    "p0 … thaw … answered",
    "p0 … patch … asked",
    "p0 … patch … answered",
)


async def test_a_save_that_comes_late_freezes_nobody() -> None:
    """It was on its way when the tenant got its instance back."""
    world = await live(
        replace(LEAVING, wishes=1, full=True, chaos=Chaos(seconds=3, full_volumes=1)),
        "p0 … pass claim",
        "p0 … patch … asked",
        "p0 … patch … answered",
        "p1 … hears boilerhouseclaims",
        "p1 … pass claim",  # its save waits at the gate
        *FAILS * 3,
        "p0 … pass claim",
        "p0 … patch … asked",
        "p0 … patch … answered",
        *CLAIMED_AGAIN,
        "volume is full, or not",
        "p1 … save … asked",
        "helper: save",
    )
    [claim] = world.server.all("boilerhouseclaims")
    assert claim["status"]["phase"] == "Active"


GONE = (
    "p0 … pass claim",  # Releasing
    "p0 … patch … asked",
    "p0 … patch … answered",
    "p0 … pass claim",
    "p0 … save … asked",
    *SAVES,
    "p0 … save … answered",
)


async def test_a_cordoned_node_is_left_once() -> None:
    """What was begun is finished; where the node is in use again, the next claim stays."""
    world = await live(
        replace(CORDONED, chaos=Chaos(cordons=2)),
        "user: cordons",
        "p0 … hears nodes",
        *GONE,
        "user: cordons",
    )
    [claim] = world.server.all("boilerhouseclaims")
    assert claim["status"]["phase"] == "Released"
    assert claim["status"]["detail"] == "the node n1 is cordoned"


async def test_a_cordon_that_was_taken_back_releases_nobody() -> None:
    """Whoever has heard of neither does nothing; whoever heard of both does not, either."""
    world = await live(
        replace(CORDONED, chaos=Chaos(cordons=2)),
        "user: cordons",
        "user: cordons",
        "p0 … hears nodes",
        "p0 … hears nodes",
        "p0 … pass claim",
        "p1 … pass claim",
    )
    [claim] = world.server.all("boilerhouseclaims")
    assert claim["status"]["phase"] == "Active"
