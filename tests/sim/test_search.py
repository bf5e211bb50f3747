"""Small worlds, searched: every schedule that differs from the plain one in a few places.

The plain schedule lets one process go on as long as it can. A schedule is that, with at most
`DEVIATIONS` moments at which something else happens instead: another process goes on, an answer is
lost, a process or a Pod dies, an event comes early. Races need few such moments, so all schedules
with few of them find what a much larger random search may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.sim.invariants import Violated
from tests.sim.world import Chaos, World

STEPS = 34

# What the plain schedule does first, if it can.
_ORDER = ("asked", "answered", "hears", "acquire", "apply", "kubelet", "pass claim", "pass own")
_NEVER = ("pass web", "clock", "minute")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep log events instead of printing them."""
    with capture_logs():
        yield


class Schedule:
    """Follows the plain schedule except at the given steps, and notes what else was possible."""

    def __init__(self, deviations: dict[int, str]) -> None:
        self._deviations = deviations
        self.possible: list[list[str]] = []
        self._last = ""

    def __call__(self, options: list[str]) -> int:
        step = len(self.possible)
        plain = min(range(len(options)), key=lambda index: self._rank(options[index]))
        others = {o for o in options if o != options[plain] and not _is_idle(o)}
        self.possible.append(sorted(others))
        wanted = self._deviations.get(step)
        picked = options.index(wanted) if wanted in options else plain
        self._last = options[picked].split(":")[0]
        return picked

    def _rank(self, option: str) -> tuple[int, int, str]:
        kind = next((n for n, word in enumerate(_ORDER) if word in option), len(_ORDER))
        gate = kind < 2
        return (kind if not gate else 0, 0 if gate and option.startswith(self._last) else 1, option)


def _is_idle(option: str) -> bool:
    return any(word in option for word in _NEVER)


async def run(world: World, deviations: dict[int, str]) -> Schedule:
    schedule = Schedule(deviations)
    one = replace(world, choose=schedule, chaos=replace(world.chaos), trace=[])
    try:
        await one.run(STEPS)
    except AssertionError as error:
        story = "\n".join(one.trace)
        raise Violated(f"{deviations}: {error}\n{story}") from error
    return schedule


async def search(world: World, depth: int, most: int) -> int:
    """Run every schedule with up to `depth` deviations, at most `most`; return how many ran."""
    ran = 0
    queue: list[dict[int, str]] = [{}]
    while queue and ran < most:
        deviations = queue.pop(0)
        schedule = await run(world, deviations)
        ran += 1
        if len(deviations) == depth:
            continue
        first = max(deviations, default=-1) + 1
        for step in range(first, len(schedule.possible)):
            queue += ({**deviations, step: other} for other in schedule.possible[step])
    return ran


NOTHING = World(choose=len, tenants=("alice",), pool=1, wishes=1)

WORLDS = {
    "two processes, one claim, one warm Pod": NOTHING,
    "two processes, one claim, no pool": replace(NOTHING, pool=0),
    "a process dies": replace(NOTHING, chaos=Chaos(crashes=1)),
    "an answer is lost": replace(NOTHING, chaos=Chaos(failures=1)),
    "the Pod dies": replace(NOTHING, chaos=Chaos(pod_deaths=1)),
    "released while it is made": replace(NOTHING, farewells=1),
    "two names for one tenant": replace(NOTHING, wishes=2, other_names=1, pool=0),
    "two tenants, one warm Pod": replace(NOTHING, wishes=2, tenants=("alice", "bob")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
async def test_every_schedule_with_one_deviation(name: str) -> None:
    """Nothing that happens at a bad moment breaks an invariant, at whatever moment it happens."""
    assert await search(WORLDS[name], depth=1, most=150) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
async def test_schedules_with_two_deviations(name: str) -> None:
    """Nor do two such things, as far as the search goes."""
    assert await search(WORLDS[name], depth=2, most=250) > 200


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", WORLDS)
async def test_all_schedules_with_two_deviations(name: str) -> None:
    """All of them."""
    assert await search(WORLDS[name], depth=2, most=20_000) > 1000
