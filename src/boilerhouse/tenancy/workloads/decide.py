"""What to do next about a workload. Pure and total: Seen ─► Plan.

being deleted ─► held by claims? say so : let it go
      phase ─► Creating   all is well? Ready : Error, with every reason
               Ready      another spec? Creating; something went missing? condition Degraded
               Error      another spec, or the reasons are gone? Creating; other reasons? say so
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import Condition, ConditionStatus, find, with_condition
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.tenancy.workloads.machine import WORKLOAD, WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.seen import Plan, Seen

SOONEST = timedelta(seconds=1)
LATEST = timedelta(minutes=1)
SHOWN = 5  # claims named in a message

READY = "Ready"
DEGRADED = "Degraded"
DELETION_BLOCKED = "DeletionBlocked"
LIMITS_ENFORCED = "LimitsEnforced"

_YES, _NO = ConditionStatus.TRUE, ConditionStatus.FALSE


def decide(seen: Seen) -> Plan:
    """Return the next step, write or wait for one workload."""
    workload = seen.workload
    if workload.deleting:
        return _part(seen)
    if not workload.held:
        return Do((AddFinalizer(),))
    same_spec = workload.status.observed_generation == workload.generation
    reasons = (*seen.faults, *seen.missing)
    phase = workload.status.phase
    if phase == WorkloadPhase.CREATING:
        return _error(seen, reasons) if reasons else _ready(seen)
    if not same_spec:
        return _creating(seen, "the spec was changed")
    if phase == WorkloadPhase.READY:
        return _degraded(seen)
    return _error(seen, reasons) if reasons else _creating(seen, "what was wrong is not any more")


def _part(seen: Seen) -> Plan:
    if not seen.claims:
        return Do((RemoveFinalizer(),)) if seen.workload.held else Wait("being deleted")
    named = ", ".join(seen.claims[:SHOWN])
    more = f" and {len(seen.claims) - SHOWN} more" if len(seen.claims) > SHOWN else ""
    why = f"claims still need it: {named}{more}; release them first"
    conditions = _stated(seen, DELETION_BLOCKED, _YES, "ClaimsActive", why)
    status = structs.replace(seen.workload.status, conditions=conditions)
    return _written(seen, status, DELETION_BLOCKED) or Wait(why)


def _ready(seen: Seen) -> Plan:
    conditions = _with_limits(seen, _stated(seen, READY, _YES, "Checked", ""))
    return WriteStatus(_status(seen, WorkloadPhase.READY, "", conditions), "Ready")


def _creating(seen: Seen, why: str) -> Plan:
    conditions = _stated(seen, READY, _NO, "Checking", why)
    return WriteStatus(_status(seen, WorkloadPhase.CREATING, "", conditions), "Creating")


def _error(seen: Seen, reasons: tuple[str, ...]) -> Plan:
    detail = "; ".join(reasons)
    word = "SpecNotUsable" if seen.faults else "NotAvailable"
    conditions = _stated(seen, READY, _NO, word, detail)
    status = _status(seen, WorkloadPhase.ERROR, detail, conditions)
    # A fault of the spec is cured by a change of it, which is an event; what is missing may come.
    again_in = _back_off(seen) if seen.missing else None
    return _written(seen, status, word) or Wait(detail, again_in)


def _degraded(seen: Seen) -> Plan:
    """Say what went missing since: it harms new instances only, so the phase stays."""
    detail = "; ".join(seen.missing)
    conditions = seen.workload.status.conditions
    if seen.missing or find(conditions, DEGRADED) is not None:
        stated = (_YES, "WentMissing", detail) if seen.missing else (_NO, "Found", "")
        conditions = _stated(seen, DEGRADED, *stated)
    conditions = _with_limits(seen, conditions)
    status = structs.replace(seen.workload.status, conditions=conditions)
    again_in = LATEST if seen.missing else None
    return _written(seen, status, DEGRADED) or Wait(detail or "ready", again_in)


def _with_limits(seen: Seen, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Say that limits are not enforced, and that they are again if that was said before."""
    if not seen.unenforced and find(conditions, LIMITS_ENFORCED) is None:
        return conditions
    why = f"an instance may take more than its limits: {seen.unenforced}"
    stated = (_NO, "NotEnforced", why) if seen.unenforced else (_YES, "Enforced", "")
    generation = seen.workload.generation
    return with_condition(conditions, LIMITS_ENFORCED, *stated, generation=generation, now=seen.now)


def _back_off(seen: Seen) -> timedelta:
    """Look again after a quarter of the time for which it has been so."""
    ready = find(seen.workload.status.conditions, READY)
    since = seen.now if ready is None else ready.last_transition_time
    return min(max((seen.now - since) / 4, SOONEST), LATEST)


def _status(
    seen: Seen, phase: WorkloadPhase, detail: str, conditions: tuple[Condition, ...]
) -> WorkloadStatus:
    return structs.replace(
        seen.workload.status,
        phase=WORKLOAD.move(seen.workload.status.phase, phase),
        detail=detail,
        conditions=conditions,
        observed_generation=seen.workload.generation,
    )


def _stated(
    seen: Seen, name: str, status: ConditionStatus, reason: str, message: str
) -> tuple[Condition, ...]:
    return with_condition(
        seen.workload.status.conditions,
        name,
        status,
        reason,
        message,
        generation=seen.workload.generation,
        now=seen.now,
    )


def _written(seen: Seen, status: WorkloadStatus, reason: str) -> WriteStatus[WorkloadStatus] | None:
    return None if status == seen.workload.status else WriteStatus(status, reason)
