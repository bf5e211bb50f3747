"""What to do next about an engine. Pure and total: Seen ─► Plan.

creating ─► switching ─► draining ─► cleaning ─► stable, stopped ─► creating …

A generation is a number and what it is made of (`currentRenderHash`), and both are written together
before anything of it is made. So a number always means one thing, and whatever is found of it after
a crash is completed. A change while it is made gives the next number; what is left of the old one
is deleted afterwards (sweep.py).

What serves comes first: in every phase after the first switch the Service is kept on the active
generation, also where class or instance are not there; only what must be rendered waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import ConditionStatus, with_condition
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.children import State
from boilerhouse.engines.engines import drift, sweep
from boilerhouse.engines.engines.machine import ENGINE, EnginePhase, settled
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.engines.ready import (
    EXTERNAL_FINALIZER,
    READY,
    conditions,
    drained_too_long,
    gate,
    overdue,
    taken,
)
from boilerhouse.engines.engines.seen import (
    DeleteGeneration,
    DeleteService,
    EnsureBudget,
    EnsureConfigMap,
    EnsureHeadless,
    EnsureService,
    EnsureStatefulSet,
    GenerationSeen,
    Plan,
    Seen,
    Step,
    Wanted,
)
from boilerhouse.engines.fields import DeadlineAction, DrainAction
from boilerhouse.engines.names import ENGINE as ENGINE_LABEL
from boilerhouse.engines.names import GENERATION

SETTLED_LOOK = timedelta(seconds=30)
CREATING_LOOK = timedelta(seconds=5)
GATED_LOOK = timedelta(seconds=10)
SOONEST_LOOK = timedelta(seconds=1)
MOST_GENERATIONS = 25  # deleted in one pass

_P = EnginePhase


def decide(seen: Seen) -> Plan:
    """Return the next steps, write or wait for one engine."""
    engine = seen.engine
    if engine.deleting:
        return _part(seen)
    if not engine.held:
        return Do((AddFinalizer(),))
    plan = _by_phase(seen)
    if isinstance(plan, Wait) and (orphans := sweep.orphans(seen)):
        why = "no status names it any more"
        return Do(tuple(DeleteGeneration(one, why) for one in orphans[:MOST_GENERATIONS]))
    return plan


def _by_phase(seen: Seen) -> Plan:
    match seen.engine.status.phase:
        case _P.CREATING:
            return _creating(seen)
        case _P.SWITCHING:
            return _switching(seen)
        case _P.DRAINING:
            return _draining(seen)
        case _P.CLEANING:
            return _cleaning(seen)
        case _:
            return _settled(seen)


def _part(seen: Seen) -> Plan:
    """Delete everything, then let the engine go."""
    steps: list[Step] = [
        DeleteGeneration(one, "the engine is deleted") for one in seen.generations if one.removable
    ]
    if seen.service.child.removable:
        steps.append(DeleteService(seen.service))
    if steps:
        return Do(tuple(steps[:MOST_GENERATIONS]))
    if not seen.engine.held:
        return Wait("being deleted")
    return _finalizers_of_others(seen) or Do((RemoveFinalizer(),))


def _finalizers_of_others(seen: Seen) -> Plan | None:
    """Say, before the engine is gone, what keeps objects of it from going; it is not waited for."""
    children = [child for one in seen.generations for child in one.children]
    others = sorted({name for child in (*children, seen.service.child) for name in child.held_by})
    if not others:
        return None
    status = seen.engine.status
    stated = with_condition(
        status.conditions,
        READY,
        ConditionStatus.FALSE,
        EXTERNAL_FINALIZER,
        f"objects of the engine stay until others let them go: {', '.join(others)}",
        generation=seen.engine.generation,
        now=seen.now,
    )
    if stated == status.conditions:
        return None
    return WriteStatus(structs.replace(status, conditions=stated), EXTERNAL_FINALIZER)


def _creating(seen: Seen) -> Plan:
    status = seen.engine.status
    # Before the first intent there is no number that the Service could select.
    if status.current_render_hash and (steps := tuple(_routed(seen, _serving(status)))):
        return Do(steps)
    if _to_abort(seen):
        return _aborted(seen)
    wanted = seen.wanted
    if wanted is None or gate(seen) is not None:
        return _stay(seen, GATED_LOOK)
    if not status.current_render_hash:
        return _first(seen, wanted)
    if wanted.hash != status.current_render_hash:
        return _next(seen, wanted, f"changed: {drift.changed(seen.stamped, wanted.inputs)}")
    current = seen.generation(status.current_generation)
    if lost := _lost(current):
        return _next(seen, wanted, lost)
    if taken(seen, status):
        return _stay(seen, GATED_LOOK)
    if steps := tuple(_repairs(current)):
        return Do(steps)
    if not current.is_ready(status.current_replicas):
        return _stay(seen, CREATING_LOOK)
    return _write(seen, structs.replace(status, phase=_P.SWITCHING), "PodsReady")


def _switching(seen: Seen) -> Plan:
    status = seen.engine.status
    current = seen.generation(status.current_generation)
    selected = seen.service.selects == status.current_generation
    gone = current.statefulset.state != State.SOUND
    if gone or (not selected and not current.is_ready(status.current_replicas)):
        return _write(seen, structs.replace(status, phase=_P.CREATING), "GenerationLost")
    if steps := tuple(_routed(seen, status.current_generation)):
        return Do(steps)
    if not selected:
        return _stay(seen, GATED_LOOK)
    old = status.active_generation
    status = structs.replace(
        status,
        active_generation=status.current_generation,
        active_render_hash=status.current_render_hash,
        active_replicas=status.current_replicas,
    )
    if 0 <= old != status.current_generation:
        since = seen.now.replace(microsecond=0)
        status = structs.replace(
            status, phase=_P.DRAINING, draining_generation=old, draining_since=since
        )
        return _write(seen, status, "Switched")
    return _write(seen, _at_rest(status), "Switched")


def _draining(seen: Seen) -> Plan:
    status, policy = seen.engine.status, seen.engine.policy
    if status.draining_generation is None:
        return _write(seen, _at_rest(status), "NothingToDrain")
    if steps := tuple(_kept_serving(seen)):
        return Do(steps)
    if _drained(seen, status.draining_generation):
        return _write(seen, structs.replace(status, phase=_P.CLEANING), "Drained")
    if drained_too_long(seen, status) and policy.drain_action == DrainAction.PROCEED:
        return _write(seen, structs.replace(status, phase=_P.CLEANING), "DrainTimedOut")
    return _stay(seen, max(policy.drain_interval, SOONEST_LOOK))


def _drained(seen: Seen, number: int) -> bool:
    """Whether nothing is lost if the old generation goes. What could not be asked is busy."""
    old = seen.generation(number).statefulset.state
    if not seen.engine.policy.drain or old in (State.ABSENT, State.TERMINATING):
        return True
    return seen.drain is not None and not seen.drain.failing and seen.drain.busy == 0


def _cleaning(seen: Seen) -> Plan:
    status = seen.engine.status
    if steps := tuple(_kept_serving(seen)):
        return Do(steps)
    if status.draining_generation is not None:
        old = seen.generation(status.draining_generation)
        if old.removable:
            return Do((DeleteGeneration(old, "its successor serves"),))
    return _write(seen, _at_rest(status), "RolledOut")


def _settled(seen: Seen) -> Plan:
    status = seen.engine.status
    if steps := tuple(_routed(seen, status.active_generation)):
        return Do(steps)
    wanted = seen.wanted
    if wanted is None or gate(seen) is not None:
        return _stay(seen, GATED_LOOK)
    if status.active_generation < 0 or status.active_generation != status.current_generation:
        return _next(seen, wanted, "the status contradicted itself")
    if wanted.hash not in (status.active_render_hash, status.aborted_render_hash):
        return _next(seen, wanted, f"changed: {drift.changed(seen.stamped, wanted.inputs)}")
    active = seen.generation(status.active_generation)
    same = wanted.hash == status.active_render_hash
    lost = _lost(active)
    if not lost and not same and active.statefulset.state == State.ABSENT:
        lost = "the StatefulSet is gone, and what it was made of is not known any more"
    if lost:
        return _next(seen, wanted, lost)
    if taken(seen, status):
        return _stay(seen, GATED_LOOK)
    if same:
        if steps := tuple(_repairs(active)):
            return Do(steps)
        status = structs.replace(status, observed_generation=seen.engine.generation)
    return _stay(seen, SETTLED_LOOK, status)


def _lost(generation: GenerationSeen) -> str:
    """Say why a generation cannot be what its number stands for; empty if it can.

    One that is simply gone can be made again. One that is going holds its name, maybe for long.
    """
    match generation.statefulset.state:
        case State.TERMINATING:
            return "the StatefulSet was deleted"
        case State.TAMPERED:
            return "the StatefulSet was changed by something else"
        case _:
            return ""


def _serving(status: EngineStatus) -> int:
    """Return the generation that the Service selects before the switch."""
    return status.active_generation if status.active_generation >= 0 else status.current_generation


def _routed(seen: Seen, generation: int) -> Iterator[Step]:
    """Make the Service select a generation, if it does not, and if it can be written."""
    state = seen.service.child.state
    if generation < 0 or state in (State.TERMINATING, State.FOREIGN):
        return
    if state == State.ABSENT and not seen.known_profile:
        return
    if seen.service.child.wrong or seen.service.selects != generation:
        yield EnsureService(generation)


def _repairs(generation: GenerationSeen) -> Iterator[Step]:
    """Make what is missing of a generation: the StatefulSet last, when its Pods can start."""
    number = generation.number
    for child, step in (
        (generation.config, EnsureConfigMap(number)),
        (generation.headless, EnsureHeadless(number)),
        (generation.budget, EnsureBudget(number)),
    ):
        if child.wrong:
            yield step
    others = (generation.config, generation.headless, generation.budget)
    absent = generation.statefulset.state == State.ABSENT
    if absent and all(child.state == State.SOUND for child in others):
        yield EnsureStatefulSet(number)


def _kept_serving(seen: Seen) -> Iterator[Step]:
    """Keep the active generation whole while the old one goes, as far as it can be rendered."""
    status, wanted = seen.engine.status, seen.wanted
    yield from _routed(seen, status.active_generation)
    same = wanted is not None and wanted.hash == status.active_render_hash
    if same and gate(seen) is None:
        yield from _repairs(seen.generation(status.active_generation))


def _to_abort(seen: Seen) -> bool:
    """Whether the generation that is made is given up: the user says so, or its time is up.

    Only for one that serves: the next pass would replace what is lost, and so on without end.
    """
    engine = seen.engine
    if seen.generation(engine.status.active_generation).statefulset.state != State.SOUND:
        return False
    if engine.abort is not None and engine.abort == engine.status.current_generation:
        return True
    late = overdue(seen, engine.status)
    return late and engine.policy.deadline_action == DeadlineAction.ABORT


def _aborted(seen: Seen) -> Plan:
    """Stay with the generation that serves; the given-up number is never used again."""
    status = seen.engine.status
    status = structs.replace(
        status,
        aborted_render_hash=status.current_render_hash,
        current_generation=status.active_generation,
        current_render_hash=status.active_render_hash,
        current_replicas=status.active_replicas,
        current_since=None,
    )
    return _write(seen, _at_rest(status), "Aborted")


def _first(seen: Seen, wanted: Wanted) -> Plan:
    """Begin the first generation, or the next one of an engine whose status was lost.

    What is found of such an engine serves on until its successor is ready.
    """
    status = seen.engine.status
    found = [one.number for one in seen.generations if one.removable]
    selected = seen.service.selects
    if selected is not None and seen.generation(selected).statefulset.removable:
        pods = seen.generation(selected).pods
        status = structs.replace(status, active_generation=selected, active_replicas=pods)
    return _begin(seen, status, wanted, max(found, default=-1) + 1, "the engine is new")


def _next(seen: Seen, wanted: Wanted, why: str) -> Plan:
    status = seen.engine.status
    return _begin(seen, status, wanted, status.latest_generation + 1, why)


def _begin(seen: Seen, status: EngineStatus, wanted: Wanted, number: int, why: str) -> Plan:
    """Write the intent: a new number, and what it stands for. Before it, nothing is made."""
    status = structs.replace(
        status,
        phase=_P.CREATING,
        current_generation=number,
        latest_generation=number,
        current_render_hash=wanted.hash,
        current_replicas=seen.engine.replicas,
        current_since=seen.now.replace(microsecond=0),
        aborted_render_hash="",
        rolled_because=why,
    )
    return _write(seen, status, "NewGeneration")


def _at_rest(status: EngineStatus) -> EngineStatus:
    return structs.replace(
        status,
        phase=settled(status.active_replicas),
        draining_generation=None,
        draining_since=None,
    )


def _write(seen: Seen, status: EngineStatus, reason: str) -> WriteStatus[EngineStatus]:
    """Write a status with everything that it says about the engine."""
    ENGINE.move(seen.engine.status.phase, status.phase)
    return WriteStatus(_complete(seen, status), reason)


def _stay(seen: Seen, again_in: timedelta, status: EngineStatus | None = None) -> Plan:
    """Tell what is waited for, if that is news, and wait."""
    status = _complete(seen, status or seen.engine.status)
    if status != seen.engine.status:
        return WriteStatus(status, str(status.phase))
    return Wait(status.detail, again_in)


def _complete(seen: Seen, status: EngineStatus) -> EngineStatus:
    active = seen.generation(status.active_generation)
    selector = ""
    if status.active_generation >= 0:
        selector = f"{ENGINE_LABEL}={seen.engine.name},{GENERATION}={status.active_generation}"
    stated = conditions(seen, status)
    ready = next(one for one in stated if one.type == READY)
    return structs.replace(
        status,
        conditions=stated,
        detail=ready.message,
        replicas=active.pods,
        ready_replicas=active.ready,
        selector=selector,
        ignored_config=status.ignored_config if seen.wanted is None else seen.wanted.ignored,
    )
