"""Engines in every phase, as a decision sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from boilerhouse.core.condition import Condition, find
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.engines.children import NOTHING, Child, State
from boilerhouse.engines.engines.decide import decide
from boilerhouse.engines.engines.machine import EnginePhase
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.engines.seen import EngineSeen, GenerationSeen, Seen, ServiceSeen, Wanted
from boilerhouse.engines.names import ENGINE_FINALIZER

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
P = EnginePhase

SOUND, TAMPERED, GOING, FOREIGN = (
    Child(state, f"uid-{state}", "1")
    for state in (State.SOUND, State.TAMPERED, State.TERMINATING, State.FOREIGN)
)
WANTED = Wanted("a", (("replicas", "r1"),))


def engine(
    phase: EnginePhase = P.STABLE, *, status: EngineStatus | None = None, **changes: Any
) -> EngineSeen:
    """An engine of one replica; `changes` that are fields of a status go there."""
    fields = {
        name: changes.pop(name)
        for name in list(changes)
        if name in EngineStatus.__struct_fields__ and name != "replicas"
    }
    base = EngineSeen(
        name="e",
        namespace="ns",
        uid="u",
        version="7",
        generation=3,
        replicas=1,
        status=replace(status or at_rest(), phase=phase, **fields),
        finalizers=(ENGINE_FINALIZER,),
    )
    return replace(base, **changes)


def at_rest() -> EngineStatus:
    """The status of an engine whose generation 0 serves."""
    return EngineStatus(
        phase=P.STABLE,
        current_generation=0,
        active_generation=0,
        latest_generation=0,
        current_render_hash="a",
        active_render_hash="a",
        current_replicas=1,
        active_replicas=1,
        current_since=NOW - MINUTE,
    )


def rolling(phase: EnginePhase, **changes: Any) -> EngineSeen:
    """An engine that rolls from generation 0, made of a, to generation 1, made of b."""
    switched = phase in (P.DRAINING, P.CLEANING)
    status = replace(
        at_rest(),
        current_generation=1,
        latest_generation=1,
        current_render_hash="b",
        active_generation=1 if switched else 0,
        active_render_hash="b" if switched else "a",
        draining_generation=0 if switched else None,
        draining_since=NOW - MINUTE if switched else None,
    )
    return engine(phase, status=status, **changes)


def whole(
    number: int, *, pods: int = 1, ready: int | None = None, **children: Any
) -> GenerationSeen:
    """A generation with everything it needs."""
    parts = {"statefulset": SOUND, "headless": SOUND, "config": SOUND, "budget": SOUND, **children}
    return GenerationSeen(number, **parts, pods=pods, ready=pods if ready is None else ready)


def selecting(number: int | None, child: Child = SOUND) -> ServiceSeen:
    return ServiceSeen(child, number)


def seen(of: EngineSeen, *generations: GenerationSeen, **changes: Any) -> Seen:
    """A look at an engine; the Service selects what serves."""
    status = of.status
    serving = (
        status.active_generation if status.active_generation >= 0 else status.current_generation
    )
    base = Seen(
        now=NOW,
        engine=of,
        wanted=replace(WANTED, hash=status.current_render_hash or "a"),
        generations=generations,
        service=selecting(serving),
    )
    return replace(base, **changes)


NO_SERVICE = ServiceSeen(NOTHING)
NEW = EngineStatus()
BLOCKED: dict[str, Any] = {"wanted": None, "instance_fault": "it is not there"}


def told(look: Seen) -> Seen:
    """The same look, after everything that there is to tell was told."""
    plan = decide(look)
    if not isinstance(plan, WriteStatus):
        return look
    return replace(look, engine=replace(look.engine, status=plan.status))


def steps(plan: object) -> tuple[Any, ...]:
    assert isinstance(plan, Do), plan
    return plan.steps


def written(plan: object) -> EngineStatus:
    assert isinstance(plan, WriteStatus), plan
    status: EngineStatus = plan.status
    return status


def condition(status: EngineStatus, name: str) -> Condition:
    found = find(status.conditions, name)
    assert found is not None, status.conditions
    return found


def waits(look: Seen, again_in: timedelta) -> None:
    """Check that there is nothing to do but to wait, after everything was told."""
    plan = decide(told(look))
    assert isinstance(plan, Wait), plan
    assert plan.again_in == again_in
