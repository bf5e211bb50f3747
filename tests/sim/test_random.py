"""Many seeded histories of several processes, with everything going wrong that can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from boilerhouse.core.clock import Random, new_rng
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


def weighted(rng: Random) -> Choose:
    """Choose a kind by weight, then one of that kind."""

    def choose(options: list[str]) -> int:
        kinds: dict[str, list[int]] = {}
        for index, option in enumerate(options):
            words = option.split(": ", 1)[-1]
            kind = next((kind for kind in WEIGHTS if kind in words), "rest")
            kinds.setdefault(kind, []).append(index)
        weights = [WEIGHTS.get(kind, 1) for kind in kinds]
        return rng.choice(kinds[rng.choices(list(kinds), weights)[0]])

    return choose


def kept(rng: Random) -> dict[str, Any]:
    """Return what is added to a history in which tenants have files."""
    idle = rng.choice([False, False, True])
    return {
        "files": True,
        "past": rng.choice([False, True]),
        "writes": rng.choice([2, 6]),
        "idle": idle,
        "touches": rng.choice([0, 3]) if idle else 0,
        "forces": rng.choice([0, 0, 1]),
        "tenants": rng.choice([("alice",), ("alice", "bob")]),
        "wishes": rng.choice([3, 6]),
        "farewells": rng.choice([1, 3]),
        "full": rng.choice([False, False, True]),
        "begin": rng.choice(["", "Active", "ReleaseFailed"]),
        "patient": rng.choice([False, True, True]),
        "other_names": 0 if idle else rng.choice([0, 1]),
    }


def files_fail(rng: Random, chaos: Chaos) -> Chaos:
    """Add what may go wrong with files."""
    return replace(
        chaos,
        clock_jumps=0,  # idleness is judged by clocks that agree
        seconds=rng.choice([8, 30]),
        helper_deaths=rng.choice([0, 1, 2]),
        agent_deaths=rng.choice([0, 1]),
        reboots=rng.choice([0, 0, 1]),
        tenant_crashes=rng.choice([0, 1]),
        full_volumes=rng.choice([0, 0, 1, 2]),
        bad_bytes=rng.choice([0, 0, 1]),
    )


async def history(seed: int, steps: int = 260, **changes: object) -> World:
    """Live one history, with files if the seed is odd; a failure tells seed and last steps."""
    rng = new_rng(seed)
    world = World(
        choose=weighted(rng),
        processes=rng.choice([2, 3]),
        tenants=("alice", "bob"),
        pool=rng.choice([0, 1, 2]),
        wishes=rng.choice([2, 4, 6]),
        other_names=rng.choice([0, 1, 2]),
        farewells=rng.choice([0, 1, 3]),
        chaos=Chaos(
            crashes=rng.choice([0, 1, 3]),
            failures=rng.choice([0, 2, 6]),
            pod_deaths=rng.choice([0, 1, 2]),
            unready=rng.choice([0, 1]),
            sick_nodes=rng.choice([0, 1]),
            clock_jumps=rng.choice([0, 2]),
            template_changes=rng.choice([0, 1]),
            quotas=rng.choice([0, 1]),
            scalings=rng.choice([0, 1]),
            cordons=rng.choice([0, 0, 1, 2]),
            repairs=rng.choice([0, 0, 1, 2]),
        ),
    )
    if seed % 2:
        changes = {**kept(rng), **changes}
        world.chaos = files_fail(rng, world.chaos)
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
