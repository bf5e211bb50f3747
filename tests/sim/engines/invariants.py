"""What holds in every world, and of every write: each by its name.

The first twelve, and the first of the writes, are those that the original has in its formal model.
"""

from __future__ import annotations

from collections.abc import Callable

from boilerhouse.core.plan import Wait, WriteStatus
from boilerhouse.engines.engines.machine import SETTLED, EnginePhase, settled
from boilerhouse.engines.engines.seen import (
    DeleteGeneration,
    EnsureConfigMap,
    EnsureService,
    EnsureStatefulSet,
    Plan,
)
from tests.sim.engines.model import SPECS, Look, World, Write


class Violated(AssertionError):
    """Something does not hold; the first argument is its name."""

    def __init__(self, name: str, story: str) -> None:
        super().__init__(f"{name}\n{story}")
        self.name = name


def _there(world: World, number: int | None) -> bool:
    if number is None or not 0 <= number < len(world.generations):
        return False
    one = world.generations[number]
    return bool(one.statefulset) and not one.going


def type_ok(world: World) -> bool:
    status = world.status
    begun = bool(status.current_render_hash)
    numbers = (status.current_generation, status.latest_generation)
    return (
        status.phase in EnginePhase
        and all(0 <= number < len(world.generations) for number in numbers)
        and status.active_generation >= -1
        and bool(status.active_render_hash) == (status.active_generation >= 0)
        and (begun or status == type(status)())
    )


def terminal_consistency(world: World) -> bool:
    status = world.status
    return status.phase not in SETTLED or status.current_generation == status.active_generation >= 0


def service_valid(world: World) -> bool:
    return world.status.active_generation < 0 or _there(world, world.service)


def terminal_has_sts(world: World) -> bool:
    return world.status.phase not in SETTLED or _there(world, world.status.active_generation)


def active_has_sts(world: World) -> bool:
    return world.status.active_generation < 0 or _there(world, world.status.active_generation)


def draining_has_sts(world: World) -> bool:
    status = world.status
    return status.phase != EnginePhase.DRAINING or _there(world, status.draining_generation)


def service_known_gen(world: World) -> bool:
    """The Service selects what serves, or what is switched to."""
    status = world.status
    known = (status.active_generation, status.current_generation)
    return status.active_generation < 0 or world.service in known


def draining_phase(world: World) -> bool:
    drains = world.status.phase in (EnginePhase.DRAINING, EnginePhase.CLEANING)
    return drains == (world.status.draining_generation is not None)


def terminal_no_draining(world: World) -> bool:
    return world.status.phase not in SETTLED or world.status.draining_generation is None


def draining_older_than_current(world: World) -> bool:
    status = world.status
    return (
        status.draining_generation is None or status.draining_generation < status.current_generation
    )


def gen_order(world: World) -> bool:
    status = world.status
    return -1 <= status.active_generation <= status.current_generation <= status.latest_generation


def quiesced_phase_matches_spec(world: World) -> bool:
    """Where the status says that it speaks of this spec, what serves is made of it."""
    status = world.status
    wanted, replicas = SPECS[world.spec]
    if status.phase not in SETTLED or status.observed_generation != world.spec + 1:
        return True
    # An edit and its taking back are one spec again: the status may speak of the one before.
    if status.active_render_hash != wanted:
        return True
    return status.phase == settled(replicas)


def one_meaning(world: World) -> bool:
    """A StatefulSet is made of what the status says that its number stands for."""
    status = world.status
    for number, recorded in (
        (status.current_generation, status.current_render_hash),
        (status.active_generation, status.active_render_hash),
    ):
        if _there(world, number) and world.generations[number].statefulset != recorded:
            return False
    return True


def config_of_its_own(world: World) -> bool:
    """The Pods of a generation find the configuration that it was made with."""
    return all(
        not one.statefulset or not one.config or one.statefulset == one.config
        for one in world.generations
    )


def nothing_before_its_number(world: World) -> bool:
    """Nothing is there of a generation whose number was not given out."""
    latest = world.status.latest_generation if world.status.current_render_hash else -1
    return not any(any(one) for one in world.generations[latest + 1 :])


Invariant = Callable[[World], bool]

# Hold whatever others do to objects.
ALWAYS: dict[str, Invariant] = {
    "TypeOK": type_ok,
    "TerminalConsistency": terminal_consistency,
    "DrainingPhase": draining_phase,
    "TerminalNoDraining": terminal_no_draining,
    "DrainingOlderThanCurrent": draining_older_than_current,
    "GenOrder": gen_order,
    "QuiescedPhaseMatchesSpec": quiesced_phase_matches_spec,
    "OneMeaning": one_meaning,
    "NothingBeforeItsNumber": nothing_before_its_number,
}
# Hold as long as only the operator writes to objects.
UNTOUCHED: dict[str, Invariant] = {
    "ServiceValid": service_valid,
    "TerminalHasSTS": terminal_has_sts,
    "ActiveHasSTS": active_has_sts,
    "DrainingHasSTS": draining_has_sts,
    "ServiceKnownGen": service_known_gen,
    "ConfigOfItsOwn": config_of_its_own,
}


def check(world: World, *, touched: bool) -> str:
    """Return the name of an invariant that does not hold; empty if all do."""
    for name, holds in ALWAYS.items():
        if not holds(world):
            return name
    if touched or world.deleting:
        return ""
    return next((name for name, holds in UNTOUCHED.items() if not holds(world)), "")


def check_plan(world: World, plan: Plan, *, stale: bool) -> str:
    """Return what a plan must not be; `world`: as it was seen."""
    if isinstance(plan, WriteStatus) and not stale:
        status = plan.status
        if status.latest_generation >= len(world.generations):
            return "NumbersAreNotWasted"
    if isinstance(plan, Wait) and plan.again_in is None and not world.deleting:
        return "EveryWaitEnds"
    return ""


def check_write(
    before: World, look: Look, write: Write, *, stale: bool = False, touched: bool = False
) -> str:
    """Return what one write does that it must not; empty if it may. `before`: the true world."""
    status, what = before.status, write.what
    if before.deleting:
        return ""
    match what:
        case DeleteGeneration(seen) if (
            before.generations[seen.number] != write.after.generations[seen.number]
        ):
            needed = {status.current_generation, status.active_generation, before.service}
            if status.phase != EnginePhase.CLEANING:
                needed.add(status.draining_generation)
            if seen.number in needed:
                return "NeverDeletesNeeded"
        case EnsureService(number):
            moves = status.active_generation >= 0 and number != status.active_generation
            there = touched or _there(before, number)
            if moves and (status.phase != EnginePhase.SWITCHING or not there):
                return "SwitchesOnlyWhenSwitching"
            if moves and status.current_replicas and not look.ready:
                return "SwitchesOnlyToReadyPods"
        case EnsureStatefulSet(number) if not stale:
            whole = before.generations[number]
            if not (whole.config and whole.headless and whole.budget):
                return "ConfigBeforeSet"
        case EnsureConfigMap(number) if not stale:
            if number not in (status.current_generation, status.active_generation):
                return "RendersOnlyWhatIsWanted"
        case WriteStatus():
            return _check_status(before, look, write.after, stale=stale)
    return ""


def _check_status(before: World, look: Look, world: World, *, stale: bool) -> str:
    old, new = before.status, world.status
    if new.latest_generation < old.latest_generation:
        return "NumbersGrow"
    begins = new.current_generation != old.current_generation or (
        new.current_render_hash != old.current_render_hash
    )
    back = new.current_generation == new.active_generation == old.active_generation
    first = not old.current_render_hash
    if begins and not back and not first and new.current_generation <= old.latest_generation:
        return "NumbersGrow"
    if new.latest_generation > old.latest_generation and old.phase in (
        EnginePhase.SWITCHING,
        EnginePhase.DRAINING,
        EnginePhase.CLEANING,
    ):
        return "NoNewGenerationInTransit"
    if begins and not look.instance and not back:
        return "GatedPhasesRender"
    if new.phase == EnginePhase.CLEANING and old.phase == EnginePhase.DRAINING:
        policy = look.policy
        given_up = look.late and policy.drain_timeout is not None
        idle = not look.busy and not look.failing
        if policy.drain and not idle and not given_up and _there(before, old.draining_generation):
            return "DrainedBeforeCleaned"
    if new.active_generation != old.active_generation:
        if old.active_generation >= 0 and new.draining_generation != old.active_generation:
            return "DrainsWhatServed"
        if not stale and not _there(before, new.active_generation):
            return "ActivatesWhatIsThere"
    aborted = old.phase in SETTLED and old.aborted_render_hash
    if not stale and begins and aborted and aborted == new.current_render_hash:
        active = before.generations[old.active_generation]
        if active.statefulset and not active.edited and not active.going:
            return "AbortedStaysAborted"
    return ""
