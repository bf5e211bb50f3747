"""Conditions of an engine, all of them, from what was seen and the status to be written. Pure.

Ready     one chain of reasons, the first that holds is told
Available whether it serves now, whatever is being rolled out
Progressing, Stalled, InstanceReady

The order of Ready's reasons is a promise; docs and tests read it from CHAIN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from boilerhouse.core.condition import Condition, ConditionStatus, find, with_condition
from boilerhouse.engines.children import State
from boilerhouse.engines.engines import names
from boilerhouse.engines.engines.machine import RENDERING, SETTLED, EnginePhase
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.engines.seen import Gate, Seen, Warned

READY = "Ready"
AVAILABLE = "Available"
INSTANCE_READY = "InstanceReady"
PROGRESSING = "Progressing"
STALLED = "Stalled"

INITIALIZING = "Initializing"
INSTANCE_NOT_READY = "InstanceNotReady"
CLASS_MISSING = "FireboltEngineClassMissing"
CLASS_UNREADY = "FireboltEngineClassUnready"
NAME_TOO_LONG = "NameTooLong"
TEMPLATE_REJECTED = "TemplateRejected"
BOUNDS_EXCEEDED = "ResourceBoundsExceeded"
NAME_TAKEN = "NameTaken"
DRAIN_CHECK_FAILING = "DrainCheckFailing"
STOPPED = "Stopped"
ROLLING = "Rolling"
PODS_NOT_READY = "PodsNotReady"
ENGINE_READY = "EngineReady"
EXTERNAL_FINALIZER = "ExternalFinalizer"
WARNING = "StatefulSetWarning"

_YES, _NO = ConditionStatus.TRUE, ConditionStatus.FALSE
_SAID = 1024  # characters of others' words that a condition repeats
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")


def gate(seen: Seen) -> Gate | None:
    """Return the first reason for which nothing can be rendered, None if there is none."""
    if seen.instance_fault is not None:
        return Gate(INSTANCE_NOT_READY, seen.instance_fault)
    return seen.faults[0] if seen.faults else None


def taken(seen: Seen, status: EngineStatus) -> str:
    """Name an object that has a name of ours and another owner; empty if there is none."""
    engine = seen.engine.name
    number = status.current_generation
    there = seen.generation(number)
    children = (
        (seen.service.child, "Service", names.service(engine)),
        (there.statefulset, "StatefulSet", names.statefulset(engine, number)),
        (there.headless, "Service", names.headless(engine, number)),
        (there.config, "ConfigMap", names.config(engine, number)),
        (there.budget, "PodDisruptionBudget", names.budget(engine, number)),
    )
    for child, kind, name in children:
        if child.state == State.FOREIGN:
            return f"the {kind} {name} belongs to something else: delete or rename it"
    return ""


def overdue(seen: Seen, status: EngineStatus) -> bool:
    """Whether the generation that is made takes longer than it may."""
    deadline, since = seen.engine.policy.deadline, status.current_since
    return (
        status.phase == EnginePhase.CREATING
        and deadline is not None
        and since is not None
        and seen.now - since >= deadline
    )


def drained_too_long(seen: Seen, status: EngineStatus) -> bool:
    """Whether the generation that drains takes longer than it may."""
    timeout, since = seen.engine.policy.drain_timeout, status.draining_since
    return (
        status.phase == EnginePhase.DRAINING
        and timeout is not None
        and since is not None
        and seen.now - since >= timeout
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why an engine is not ready, and when it holds: it then returns its message."""

    names: tuple[str, ...]
    told: Callable[[Seen, EngineStatus], tuple[str, str] | None]


def _initializing(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    if status.current_render_hash:
        return None
    return INITIALIZING, "no generation was begun yet"


def _gated(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    blocked = gate(seen) if status.phase in RENDERING else None
    return None if blocked is None else (blocked.reason, blocked.message)


def _taken(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    named = taken(seen, status)
    return (NAME_TAKEN, named) if named else None


def _drain_failing(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    if status.phase != EnginePhase.DRAINING or seen.drain is None or not seen.drain.failing:
        return None
    return DRAIN_CHECK_FAILING, "; ".join(seen.drain.failing)


def _stopped(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    if status.phase != EnginePhase.STOPPED:
        return None
    return STOPPED, "Engine is stopped (spec.replicas is 0)"


def _rolling(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    if status.phase in SETTLED:
        return None
    message = f"generation {status.current_generation} is {status.phase}"
    return _explained(seen, status, ROLLING, message)


def _pods_not_ready(seen: Seen, status: EngineStatus) -> tuple[str, str] | None:
    number, replicas = status.active_generation, status.active_replicas
    active = seen.generation(number)
    if active.is_ready(replicas):
        return None
    message = f"generation {number} has {active.ready} of {replicas} pod(s) ready"
    return _explained(seen, status, PODS_NOT_READY, message)


def _explained(seen: Seen, status: EngineStatus, reason: str, message: str) -> tuple[str, str]:
    """Say what the StatefulSet's own controller complains about, if Pods are missing at all."""
    number = status.current_generation
    current, warned = seen.generation(number), seen.warned
    there = current.statefulset.state in (State.SOUND, State.TAMPERED)
    if warned is None or not there or current.pods >= status.current_replicas:
        return reason, message
    times = f" (x{warned.count})" if warned.count > 1 else ""
    name = names.statefulset(seen.engine.name, number)
    word = warned.reason if _REASON.fullmatch(warned.reason) else WARNING
    return word, f"StatefulSet {name}: {warned.message}{times}"


# The page's order, with what it does not list put where it belongs.
CHAIN: tuple[Reason, ...] = (
    Reason(
        (
            INSTANCE_NOT_READY,
            CLASS_MISSING,
            CLASS_UNREADY,
            NAME_TOO_LONG,
            TEMPLATE_REJECTED,
            BOUNDS_EXCEEDED,
        ),
        _gated,
    ),
    Reason((INITIALIZING,), _initializing),
    Reason((NAME_TAKEN,), _taken),
    Reason((DRAIN_CHECK_FAILING,), _drain_failing),
    Reason((STOPPED,), _stopped),
    Reason((ROLLING,), _rolling),
    Reason((PODS_NOT_READY,), _pods_not_ready),
)


def conditions(seen: Seen, status: EngineStatus) -> tuple[Condition, ...]:
    """State everything about the engine, as it is when this status is written."""
    stated = _Stated(status.conditions, seen.engine.generation, seen.now)
    if status.phase in RENDERING and seen.instance_needed:
        fault = seen.instance_fault
        if fault is None:
            stated.say(INSTANCE_READY, _YES, INSTANCE_READY, "")
        else:
            stated.say(INSTANCE_READY, _NO, INSTANCE_NOT_READY, fault)
    told = next(filter(None, (reason.told(seen, status) for reason in CHAIN)), None)
    if told is None:
        active = status.active_generation
        stated.say(READY, _YES, ENGINE_READY, f"generation {active} is serving")
    else:
        stated.say(READY, _NO, *told)
    stated.say(AVAILABLE, *_available(seen, status))
    stated.say(PROGRESSING, *_progressing(status))
    stalled = _stalled(seen, status)
    if stalled is not None or find(status.conditions, STALLED) is not None:
        stated.say(STALLED, *(stalled or (_NO, "NotStalled", "")))
    return stated.conditions


class _Stated:
    """Conditions as they are stated one after another."""

    def __init__(self, conditions: tuple[Condition, ...], generation: int, now: datetime) -> None:
        self.conditions = conditions
        self._generation = generation
        self._now = now

    def say(self, name: str, status: ConditionStatus, reason: str, message: str) -> None:
        self.conditions = with_condition(
            self.conditions,
            name,
            status,
            reason,
            message[:_SAID],
            generation=self._generation,
            now=self._now,
        )


def _available(seen: Seen, status: EngineStatus) -> tuple[ConditionStatus, str, str]:
    number = seen.service.selects
    if number is None:
        return _NO, "NoService", "the Service selects no generation yet"
    selected = seen.generation(number)
    if not selected.ready:
        return _NO, "NoReadyPods", f"no pod of generation {number} is ready"
    return _YES, "Serving", f"generation {number} is serving"


def _progressing(status: EngineStatus) -> tuple[ConditionStatus, str, str]:
    if status.phase not in SETTLED:
        return _YES, "RollingOut", status.rolled_because
    if status.aborted_render_hash:
        words = "the last rollout was aborted; change the spec to try again"
        return _NO, "Aborted", words
    return _NO, "RolledOut", ""


def _stalled(seen: Seen, status: EngineStatus) -> tuple[ConditionStatus, str, str] | None:
    if overdue(seen, status):
        words = f"generation {status.current_generation} did not become ready in time"
        return _YES, "ProgressDeadlineExceeded", words
    if drained_too_long(seen, status):
        words = f"generation {status.draining_generation} did not finish its work in time"
        return _YES, "DrainTimedOut", words
    return None


@dataclass(frozen=True, slots=True)
class Event:
    """A Warning event, with the times that may tell when it was: not every writer sets all."""

    reason: str
    message: str
    count: int = 1
    last_seen: datetime | None = None
    event_time: datetime | None = None
    created: datetime | None = None


def newest(events: Iterable[Event]) -> Warned | None:
    """Return the newest event that says something."""
    dated = [
        (event.last_seen or event.event_time or event.created, event)
        for event in events
        if event.message
    ]
    known = [(when, event) for when, event in dated if when is not None]
    if not known:
        return None
    _, event = max(known, key=lambda pair: pair[0])
    return Warned(event.reason, event.message, event.count)
