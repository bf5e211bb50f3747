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

from boilerhouse.core.clock import new_rng
from tests.sim.invariants import Violated
from tests.sim.sim_fixture import Chaos, World

STEPS = 34

# What the plain schedule does first, if it can.
_ORDER = (
    "asked",
    "answered",
    "helper: ",
    "hears",
    "acquire",
    "apply",
    "kubelet",
    "pass claim",
    "pass own",
)
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
        await one.run(STEPS * 2 if world.files else STEPS)
    except AssertionError as error:
        story = "\n".join(one.trace)
        raise Violated(f"{deviations}: {error}\n{story}") from error
    return schedule


async def search(world: World, depth: int, most: int) -> int:
    """Run schedules with up to `depth` deviations; return how many ran.

    All of them if there are no more than `most`, else a sample that is the same each time.
    """
    ran = 0
    rng = new_rng(most)
    level: list[dict[int, str]] = [{}]
    for deviations in range(depth + 1):
        left = max(1, (most - ran) // (depth + 1 - deviations))
        chosen = level if len(level) <= left else rng.sample(level, left)
        level = []
        for one in chosen:
            schedule = await run(world, one)
            ran += 1
            first = max(one, default=-1) + 1
            for step in range(first, len(schedule.possible)):
                level += ({**one, step: other} for other in schedule.possible[step])
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
    "the workload changes, one warm Pod": replace(NOTHING, chaos=Chaos(repairs=1)),
    "the workload changes, no pool": replace(NOTHING, pool=0, chaos=Chaos(repairs=1)),
}


KEPT = replace(NOTHING, files=True, past=True, writes=1)
LEAVING = replace(KEPT, wishes=0, begin="Leaving", writes=3)
CORDONED = replace(KEPT, wishes=0, begin="Active", writes=3)
BACK = replace(KEPT, begin="ReleaseFailed", writes=3)

WORLDS |= {
    "files: a warm Pod is filled": KEPT,
    "files: a cold Pod is filled": replace(KEPT, pool=0),
    "files: the helper dies while it fills": replace(KEPT, chaos=Chaos(helper_deaths=1)),
    "files: the machine starts again": replace(KEPT, chaos=Chaos(reboots=1)),
    "files: the workload changes": replace(KEPT, pool=0, chaos=Chaos(repairs=1)),
    "files: two processes save": LEAVING,
    "files: a process dies while it saves": replace(LEAVING, chaos=Chaos(crashes=1)),
    "files: the helper dies while it saves": replace(LEAVING, chaos=Chaos(helper_deaths=1)),
    "files: the machine starts again while it saves": replace(LEAVING, chaos=Chaos(reboots=1)),
    "files: the tenant begins anew": replace(LEAVING, chaos=Chaos(tenant_crashes=1)),
    "files: the volume fills up": replace(LEAVING, chaos=Chaos(full_volumes=1)),
    "files: the node is cordoned": replace(CORDONED, chaos=Chaos(cordons=2)),
    "files: claimed while it leaves": replace(CORDONED, wishes=1, chaos=Chaos(cordons=1)),
    "files: claimed again": BACK,
    "files: claimed again, and a retry": replace(BACK, farewells=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
async def test_schedules_with_one_deviation(name: str) -> None:
    """Nothing that happens at a bad moment breaks an invariant, at whatever moment it happens."""
    assert await search(WORLDS[name], depth=1, most=60) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
async def test_schedules_with_two_deviations(name: str) -> None:
    """Nor do two such things, as far as the search goes."""
    assert await search(WORLDS[name], depth=2, most=40) > 20


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", WORLDS)
async def test_all_schedules_with_two_deviations(name: str) -> None:
    """All of them."""
    assert await search(WORLDS[name], depth=2, most=20_000) > 1000
