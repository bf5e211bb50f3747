"""What to do next about an instance. Pure and total: Seen ─► Plan.

being deleted ─► engines name it? say so, and stay : delete; the data stays unless asked for
otherwise     ─► an id, once ─► the metadata service ─► where engines find it, and the phase

Failed is for what only another spec can cure; everything else is tried again.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import Condition, ConditionStatus, with_condition
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.children import State
from boilerhouse.engines.instances.machine import INSTANCE, InstancePhase
from boilerhouse.engines.instances.model import InstanceStatus
from boilerhouse.engines.instances.names import address
from boilerhouse.engines.instances.seen import (
    DeleteObject,
    DeleteVolume,
    EnsureService,
    EnsureStatefulSet,
    MintId,
    Plan,
    Seen,
    Step,
)
from boilerhouse.engines.instances.ulid import ulid

READY_LOOK = timedelta(seconds=30)
UNREADY_LOOK = timedelta(seconds=5)
SHOWN = 5  # engines named in a message

READY = "Ready"
METADATA_READY = "MetadataReady"
ALL_READY = "AllComponentsReady"
PROVISIONING = "Provisioning"
SECRET_MISSING = "PostgresSecretPreflightFailed"  # noqa: S105  a reason, no password
SPEC_NOT_USABLE = "SpecNotUsable"
NAME_TAKEN = "NameTaken"
DELETION_BLOCKED = "DeletionBlocked"

_P = InstancePhase
_YES, _NO = ConditionStatus.TRUE, ConditionStatus.FALSE


def decide(seen: Seen) -> Plan:
    """Return the next steps, write or wait for one instance."""
    instance = seen.instance
    if instance.deleting:
        return _part(seen)
    if not instance.held:
        return Do((AddFinalizer(),))
    if instance.spec.id is None:
        return Do((MintId(ulid(seen.now, seen.chance)),))
    if seen.faults:
        return _told(seen, _P.FAILED, (_NO, SPEC_NOT_USABLE, "; ".join(seen.faults)))
    if instance.status.phase == _P.FAILED:
        return _told(seen, _P.PROVISIONING, (_NO, PROVISIONING, "the spec was changed"))
    if steps := _steps(seen):
        return Do(steps)
    fact = _metadata(seen)
    if fact[0] == _YES:
        return _told(seen, _P.READY, fact)
    was = instance.status.phase
    return _told(seen, _P.DEGRADED if was in (_P.READY, _P.DEGRADED) else _P.PROVISIONING, fact)


def _steps(seen: Seen) -> tuple[Step, ...]:
    if seen.instance.spec.metadata.endpoint is not None or seen.missing:
        return ()
    steps: list[Step] = []
    if seen.service.wrong:
        steps.append(EnsureService())
    if seen.statefulset.wrong:
        steps.append(EnsureStatefulSet())
    return tuple(steps)


def _metadata(seen: Seen) -> tuple[ConditionStatus, str, str]:
    """Say whether engines can use the metadata service, and why."""
    if seen.instance.spec.metadata.endpoint is not None:
        return _YES, "External", "the metadata service is another's"
    if seen.ready and seen.statefulset.state == State.SOUND:
        return _YES, "Ready", ""
    if seen.missing:  # what runs does not need it any more
        return _NO, SECRET_MISSING, "; ".join(seen.missing)
    if State.FOREIGN in (seen.statefulset.state, seen.service.state):
        return _NO, NAME_TAKEN, "an object of the metadata service's name belongs to another"
    return _NO, PROVISIONING, "the metadata service is not ready"


def _part(seen: Seen) -> Plan:
    """Delete what was made, once no engine needs it; the data only if that is asked for."""
    if seen.engines:
        named = ", ".join(seen.engines[:SHOWN])
        more = f" and {len(seen.engines) - SHOWN} more" if len(seen.engines) > SHOWN else ""
        why = f"engines still name it: {named}{more}"
        return _written(seen, _status(seen, _ready(seen, (_NO, DELETION_BLOCKED, why)), why), why)
    steps: list[Step] = [
        DeleteObject(kind, child)
        for kind, child in (("StatefulSet", seen.statefulset), ("Service", seen.service))
        if child.removable
    ]
    if steps:
        return Do(tuple(steps))
    if seen.instance.delete_data and seen.volume.state not in (State.ABSENT, State.TERMINATING):
        return Do((DeleteVolume(seen.volume),))
    return Do((RemoveFinalizer(),)) if seen.instance.held else Wait("being deleted")


def _told(seen: Seen, phase: InstancePhase, fact: tuple[ConditionStatus, str, str]) -> Plan:
    """Write what is so, if it is news; `fact`: the state of the metadata service."""
    status, reason, message = fact
    conditions = _stated(seen, seen.instance.status.conditions, METADATA_READY, fact)
    whole = (_YES, ALL_READY, "") if status == _YES else fact
    conditions = _stated(seen, conditions, READY, whole)
    told = structs.replace(
        _status(seen, conditions, message),
        phase=INSTANCE.move(seen.instance.status.phase, phase),
    )
    if (
        phase != _P.FAILED
    ):  # a spec that cannot be used takes nothing from engines that use the last
        ready = phase == _P.READY
        endpoint = _endpoint(seen) if ready else ""
        told = structs.replace(told, metadata_ready=ready, metadata_endpoint=endpoint)
    return _written(seen, told, message or reason)


def _endpoint(seen: Seen) -> str:
    instance = seen.instance
    return instance.spec.metadata.endpoint or address(instance.name, instance.namespace)


def _ready(seen: Seen, fact: tuple[ConditionStatus, str, str]) -> tuple[Condition, ...]:
    return _stated(seen, seen.instance.status.conditions, READY, fact)


def _stated(
    seen: Seen,
    conditions: tuple[Condition, ...],
    name: str,
    fact: tuple[ConditionStatus, str, str],
) -> tuple[Condition, ...]:
    return with_condition(
        conditions, name, *fact, generation=seen.instance.generation, now=seen.now
    )


def _status(seen: Seen, conditions: tuple[Condition, ...], detail: str) -> InstanceStatus:
    return structs.replace(
        seen.instance.status,
        conditions=conditions,
        detail=detail,
        observed_generation=seen.instance.generation,
        bound_engines=len(seen.engines),
    )


def _written(seen: Seen, status: InstanceStatus, why: str) -> Plan:
    if status != seen.instance.status:
        return WriteStatus(status, str(status.phase))
    if status.phase == _P.FAILED and not seen.instance.deleting:
        return Wait(why)  # a change of the spec is an event
    return Wait(why, READY_LOOK if status.metadata_ready else UNREADY_LOOK)
