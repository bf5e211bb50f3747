"""Many seeded histories of several processes, with everything going wrong that can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from boilerhouse.core.clock import Random, rng
from tests.sim.invariants import Violated
from tests.sim.sim_fixture import Chaos, Choose, World


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep log events instead of printing them."""
    with capture_logs():
        yield


# How often which kind of thing happens, so that histories go deep and do not tread water.
WEIGHTS = {
    "asked": 8,
    "answered": 8,
    "hears": 5,
    "pass claim": 5,
    "pass own": 5,
    "acquire": 2,
    "apply": 2,
    "ready": 4,
    "agent up": 4,
    "restarted": 4,
    "helper: save": 8,
    "helper: restore": 8,
    "writes": 3,
    "seconds pass": 3,
    "stopped": 4,
    "delete": 1,
    "release": 1,
}


def weighted(chance: Random) -> Choose:
    """Choose a kind by weight, then one of that kind."""

    def choose(options: list[str]) -> int:
        kinds: dict[str, list[int]] = {}
        for index, option in enumerate(options):
            words = option.split(": ", 1)[-1]
            kind = next((kind for kind in WEIGHTS if kind in words), "rest")
            kinds.setdefault(kind, []).append(index)
        weights = [WEIGHTS.get(kind, 1) for kind in kinds]
        return chance.choice(kinds[chance.choices(list(kinds), weights)[0]])

    return choose


def kept(chance: Random) -> dict[str, Any]:
    """Return what is added to a history in which tenants have files."""
    idle = chance.choice([False, False, True])
    return {
        "files": True,
        "past": chance.choice([False, True]),
        "writes": chance.choice([2, 6]),
        "idle": idle,
        "touches": chance.choice([0, 3]) if idle else 0,
        "forces": chance.choice([0, 0, 1]),
        "tenants": chance.choice([("alice",), ("alice", "bob")]),
        "wishes": chance.choice([3, 6]),
        "farewells": chance.choice([1, 3]),
        "full": chance.choice([False, False, True]),
        "begin": chance.choice(["", "Active", "ReleaseFailed"]),
        "patient": chance.choice([False, True, True]),
        "other_names": 0 if idle else chance.choice([0, 1]),
    }


def files_fail(chance: Random, chaos: Chaos) -> Chaos:
    """Add what may go wrong with files."""
    return replace(
        chaos,
        clock_jumps=0,  # idleness is judged by clocks that agree
        seconds=chance.choice([8, 30]),
        helper_deaths=chance.choice([0, 1, 2]),
        agent_deaths=chance.choice([0, 1]),
        reboots=chance.choice([0, 0, 1]),
        tenant_crashes=chance.choice([0, 1]),
        full_volumes=chance.choice([0, 0, 1, 2]),
        bad_bytes=chance.choice([0, 0, 1]),
    )


async def history(seed: int, steps: int = 260, **changes: object) -> World:
    """Live one history, with files if the seed is odd; a failure tells seed and last steps."""
    chance = rng(seed)
    world = World(
        choose=weighted(chance),
        processes=chance.choice([2, 3]),
        tenants=("alice", "bob"),
        pool=chance.choice([0, 1, 2]),
        wishes=chance.choice([2, 4, 6]),
        other_names=chance.choice([0, 1, 2]),
        farewells=chance.choice([0, 1, 3]),
        chaos=Chaos(
            crashes=chance.choice([0, 1, 3]),
            failures=chance.choice([0, 2, 6]),
            pod_deaths=chance.choice([0, 1, 2]),
            unready=chance.choice([0, 1]),
            sick_nodes=chance.choice([0, 1]),
            clock_jumps=chance.choice([0, 2]),
            template_changes=chance.choice([0, 1]),
            quotas=chance.choice([0, 1]),
            scalings=chance.choice([0, 1]),
            cordons=chance.choice([0, 0, 1, 2]),
            repairs=chance.choice([0, 0, 1, 2]),
        ),
    )
    if seed % 2:
        changes = {**kept(chance), **changes}
        world.chaos = files_fail(chance, world.chaos)
    for name, value in changes.items():
        setattr(world, name, value)
    try:
        await world.run(steps * 2 if world.files else steps)
    except (Violated, AssertionError) as error:
        story = "\n".join(world.trace[-40:])
        raise Violated(f"seed {seed}: {error}\n{story}") from error
    return world


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
async def test_invariants_hold_in_every_history(block: int) -> None:
    """All invariants after each write, and the same good end whatever happened."""
    for seed in range(block * 10, block * 10 + 10):
        await history(seed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("block", range(10))
async def test_many_more_histories(block: int) -> None:
    """The same, for as long as patience lasts."""
    for seed in range(1_000 + block * 500, 1_500 + block * 500):
        await history(seed)
