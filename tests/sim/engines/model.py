"""A small API with one engine in it: what a write of the operator, or of others, makes of it.

State ─► view() ─► Seen ─► production decide ─► Plan ─► writes() ─► one State per single write

Each write is a transition by itself, so a crash between any two of them is nothing special: the
next pass begins wherever the last write led. What only a look can tell (readiness, work in
progress, the time, the instance) is not part of the state: every look may find anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from msgspec import structs

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, WriteStatus
from boilerhouse.engines.children import NOTHING, Child, State
from boilerhouse.engines.engines.machine import EnginePhase
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.engines.seen import (
    DeleteGeneration,
    DeleteService,
    DrainSeen,
    EngineSeen,
    EnsureBudget,
    EnsureConfigMap,
    EnsureHeadless,
    EnsureService,
    EnsureStatefulSet,
    GenerationSeen,
    Plan,
    Policy,
    Seen,
    ServiceSeen,
    Step,
    Wanted,
)
from boilerhouse.engines.fields import DeadlineAction, DrainAction
from boilerhouse.engines.names import ENGINE_FINALIZER

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)

# What can be asked for: its hash, and the replicas. An edit of the class is one of the hash alone.
SPECS = (("a", 1), ("b", 1), ("z", 0))

# What a late generation may come to.
IMPATIENT = Policy(
    drain_timeout=timedelta(minutes=1),
    drain_action=DrainAction.PROCEED,
    deadline=timedelta(minutes=1),
    deadline_action=DeadlineAction.ABORT,
)
CARELESS = Policy(drain=False)


class Generation(NamedTuple):
    """What is there of one generation: hashes of what things were made of, "" for absence."""

    statefulset: str = ""
    config: str = ""
    headless: bool = False
    budget: bool = False
    edited: bool = False  # the StatefulSet, by something else
    going: bool = False  # the StatefulSet was deleted, and is not gone yet


EMPTY = Generation()
EDITED = "?"  # the hash of a ConfigMap that something else wrote into


class World(NamedTuple):
    """Everything that the API holds about one engine."""

    spec: int
    status: EngineStatus
    generations: tuple[Generation, ...]
    service: int | None = None  # the generation it selects; -2: something else
    held: bool = False
    deleting: bool = False
    gone: bool = False
    edits: int = 0  # that others may still make of the spec
    tampers: int = 0  # that others may still make of objects
    mortal: bool = False  # whether it may be deleted


class Look(NamedTuple):
    """What one look finds of things that change by themselves."""

    instance: bool = True
    ready: bool = True
    busy: int = 0
    failing: bool = False
    late: bool = False
    abort: bool = False
    policy: Policy = Policy()  # policies are read anew by each look


FAIR = Look()


def plain(status: EngineStatus) -> EngineStatus:
    """Leave out of a status what no decision looks at."""
    return _interned(
        structs.replace(
            status,
            conditions=(),
            detail="",
            rolled_because="",
            selector="",
            replicas=0,
            ready_replicas=0,
            current_since=None if status.current_since is None else NOW,
            draining_since=None if status.draining_since is None else NOW,
        )
    )


@cache
def _interned(status: EngineStatus) -> EngineStatus:
    return status


def looks(world: World) -> Iterator[Look]:
    """Yield every look that could make a difference in this phase."""
    phase = world.status.phase
    yield FAIR
    if world.deleting:
        return
    if phase in (EnginePhase.CREATING, EnginePhase.STABLE, EnginePhase.STOPPED):
        yield Look(instance=False)
    if phase == EnginePhase.CREATING:
        yield Look(abort=True)
        yield Look(ready=False, late=True, policy=IMPATIENT)
    if phase in (EnginePhase.CREATING, EnginePhase.SWITCHING):
        yield Look(ready=False)
    if phase == EnginePhase.DRAINING:
        yield Look(busy=1)
        yield Look(failing=True)
        yield Look(busy=1, policy=CARELESS)
        yield Look(busy=1, late=True, policy=IMPATIENT)


_SOUND, _TAMPERED, _GOING = (
    Child(state) for state in (State.SOUND, State.TAMPERED, State.TERMINATING)
)
_WANTED = {name: Wanted(name) for name, _ in SPECS}
_DRAINED, _FAILING = DrainSeen(), DrainSeen(failing=("it does not answer",))


@cache
def _generation(
    number: int, there: Generation, recorded: str, wanted: str, replicas: int, ready: bool
) -> GenerationSeen:
    """Judge a generation as production does; `recorded`: what the status says it is made of."""
    statefulset = NOTHING
    if there.statefulset:
        strange = bool(recorded) and there.statefulset != recorded
        statefulset = _GOING if there.going else _TAMPERED if there.edited or strange else _SOUND
    known = recorded == wanted
    config = NOTHING
    if there.config:
        config = _TAMPERED if known and there.config != wanted else _SOUND
    pods = replicas if there.statefulset and not there.going else 0
    return GenerationSeen(
        number,
        statefulset,
        _SOUND if there.headless else NOTHING,
        config,
        _SOUND if there.budget else NOTHING,
        pods,
        pods if ready else 0,
    )


def view(world: World, look: Look) -> Seen:
    """Look at the world."""
    status = world.status
    wanted, replicas = SPECS[world.spec]
    recorded = {
        status.active_generation: status.active_render_hash,
        status.current_generation: status.current_render_hash,
    }
    pods = {
        status.active_generation: status.active_replicas,
        status.current_generation: status.current_replicas,
    }
    generations = tuple(
        _generation(n, there, recorded.get(n, ""), wanted, pods.get(n, 1), look.ready)
        for n, there in enumerate(world.generations)
        if there != EMPTY
    )
    engine = EngineSeen(
        name="e",
        namespace="ns",
        uid="u",
        version="1",
        generation=world.spec + 1,
        replicas=replicas,
        status=status,
        policy=look.policy,
        abort=status.current_generation if look.abort else None,
        finalizers=(ENGINE_FINALIZER,) if world.held else (),
        deleting=world.deleting,
    )
    service = ServiceSeen()
    if world.service is not None:
        service = ServiceSeen(_SOUND, world.service if world.service >= 0 else None)
    drain = None
    if status.phase == EnginePhase.DRAINING:
        drain = _FAILING if look.failing else DrainSeen(look.busy) if look.busy else _DRAINED
    return Seen(
        now=LATER if look.late else NOW,
        engine=engine,
        instance_fault=None if look.instance else "it is not there",
        wanted=_WANTED[wanted] if look.instance else None,
        generations=generations,
        service=service,
        drain=drain,
    )


class Write(NamedTuple):
    """One write of the operator: what it was, and the world after it."""

    what: Step | WriteStatus[EngineStatus]
    after: World


def writes(
    world: World,
    seen_from: World,
    plan: Plan,
    *,
    every_order: bool = False,
    trusting: bool = False,
) -> Iterator[Write]:
    """Carry out a plan, one write at a time; `seen_from`: the world that it was decided on.

    What a plan makes, and what it deletes, is independent of each other, and every write is
    followed by another decision. So one order stands for all, unless `every_order` is asked for.

    As apply does it: a status is written if the engine is as it was seen; the Service is pointed
    elsewhere if the engine and the Service are; objects are made if they are absent, changed and
    deleted if they are as they were seen. A `trusting` apply does not ask for the engine before it
    points the Service elsewhere.
    """
    same_engine = (world.status, world.spec, world.deleting, world.held) == (
        seen_from.status,
        seen_from.spec,
        seen_from.deleting,
        seen_from.held,
    )
    if isinstance(plan, WriteStatus):
        within = plan.status.latest_generation < len(world.generations)
        if same_engine and within:
            yield Write(plan, world._replace(status=plain(plan.status)))
        return
    if not isinstance(plan, Do):
        return
    rendered = SPECS[seen_from.spec][0]
    for step in plan.steps:
        asked = same_engine or (trusting and isinstance(step, EnsureService))
        made = [Write(step, one) for one in _after(world, seen_from, step, rendered, asked)]
        changes = [write for write in made if write.after != world]
        yield from changes if every_order else changes[:2]
        if changes and not every_order:
            return


def _after(
    world: World, seen_from: World, step: Step, rendered: str, same_engine: bool
) -> Iterator[World]:
    match step:
        case AddFinalizer() if same_engine:
            yield world._replace(held=True)
        case RemoveFinalizer() if same_engine:
            yield world._replace(gone=True)
        case EnsureConfigMap(n):
            if world.generations[n].config == seen_from.generations[n].config:
                yield put(world, n, config=rendered)
        case EnsureHeadless(n):
            yield put(world, n, headless=True)
        case EnsureBudget(n):
            yield put(world, n, budget=True)
        case EnsureStatefulSet(n) if not world.generations[n].statefulset:
            yield put(world, n, statefulset=rendered)
        case EnsureService(n) if same_engine and world.service == seen_from.service:
            yield world._replace(service=n)
        case DeleteService() if world.service == seen_from.service:
            yield world._replace(service=None)
        case DeleteGeneration(seen):
            yield from _deletions(world, seen_from, seen)


def _deletions(world: World, seen_from: World, seen: GenerationSeen) -> Iterator[World]:
    n = seen.number
    there, was = world.generations[n], seen_from.generations[n]
    same = (there.statefulset, there.edited, there.going) == (
        was.statefulset,
        was.edited,
        was.going,
    )
    if seen.statefulset.removable and same:
        yield put(world, n, statefulset="", edited=False)
        yield put(world, n, going=True)
    if seen.config.removable and there.config == was.config:
        yield put(world, n, config="")
    if seen.headless.removable:
        yield put(world, n, headless=False)
    if seen.budget.removable:
        yield put(world, n, budget=False)


def put(world: World, n: int, **changes: Any) -> World:
    """Return the world with one generation changed."""
    generations = list(world.generations)
    generations[n] = generations[n]._replace(**changes)
    return world._replace(generations=tuple(generations))


def others(world: World) -> Iterator[World]:
    """Yield what Kubernetes and people may do next."""
    if world.gone:
        return
    yield from gone(world)
    if world.mortal and not world.deleting:
        yield world._replace(deleting=True, gone=not world.held)
    if world.deleting:
        return
    if world.edits:
        for spec in range(len(SPECS)):
            if spec != world.spec:
                yield world._replace(spec=spec, edits=world.edits - 1)
    if world.tampers:
        yield from (after._replace(tampers=world.tampers - 1) for after in _tampered(world))


def gone(world: World) -> Iterator[World]:
    """Yield what becomes of StatefulSets that were deleted."""
    for n, there in enumerate(world.generations):
        if there.going:
            yield put(world, n, statefulset="", going=False, edited=False)


def _tampered(world: World) -> Iterator[World]:
    if world.service is not None:
        yield world._replace(service=None)
        yield world._replace(service=-2)
    for n, there in enumerate(world.generations):
        if there.statefulset and not there.going:
            yield put(world, n, statefulset="", edited=False)
            yield put(world, n, going=True)
            if not there.edited:
                yield put(world, n, edited=True)
        if there.config:
            yield put(world, n, config="")
            yield put(world, n, config=EDITED)
        if there.headless:
            yield put(world, n, headless=False)


def born(spec: int, *, edits: int, tampers: int, mortal: bool, spare: int) -> World:
    """Return a world in which an engine was just made.

    Each edit, and each tampering, costs a generation at most; a mistaken look may cost a `spare`.
    """
    return World(
        spec=spec,
        status=plain(EngineStatus()),
        generations=(EMPTY,) * (1 + edits + tampers + spare),
        edits=edits,
        tampers=tampers,
        mortal=mortal,
    )
