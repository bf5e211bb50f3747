"""What to do next about a claim. Pure and total: Seen ─► Plan.

strays? ─► delete them
  phase ─► Pending, Error   _obtain   get the one Pod of the intent, or say why not
           Active           _keep     is it still there? ready? does it know whose it is?
           Releasing        _release  remove it
           Released         _let_go   finalizer, and the object if REST asked
           ReleaseFailed    _leave

Each rule reads as: if that is so, then this. `intent.py` says why the order of the rules about
Pods is what it is. In Error the same steps go on as in Pending, with the back-off of the step that
failed; the phase goes back to Pending when the step has worked, so it does not flap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from msgspec import structs

from boilerhouse.claims import intent as intents
from boilerhouse.claims.intent import Intent
from boilerhouse.claims.machine import CLAIM, ClaimPhase
from boilerhouse.claims.model import ClaimStatus, Endpoint, Source
from boilerhouse.claims.seen import (
    BindPod,
    ClaimSeen,
    CreatePod,
    DeleteClaim,
    DeletePod,
    DeliverIdentity,
    Do,
    LookForRival,
    Plan,
    RemoveFinalizer,
    Seen,
    Step,
    Wait,
    WriteIntent,
    WriteStatus,
)
from boilerhouse.core.condition import Condition, ConditionStatus, find, with_condition
from boilerhouse.core.names import READY
from boilerhouse.core.setback import Setback
from boilerhouse.instances.seen import Blueprint, InstanceSeen
from boilerhouse.workloads.machine import WorkloadPhase

ATTEMPTS = 10  # of one step in a row, before the claim is in Error
IMAGE_PATIENCE = timedelta(minutes=1)  # kubelet has tried three times by then
NOW = timedelta(0)
SAID = 1024  # characters of a detail that a condition repeats

INSTANCE_READY = "InstanceReady"
IDENTITY_DELIVERED = "IdentityDelivered"


def decide(seen: Seen) -> Plan:
    """Return the next step, write or wait for one claim."""
    claim = seen.claim
    if seen.strays:
        why = "it belongs to a claim that names another instance, or to none any more"
        return _patiently(seen, *(DeletePod(stray, why) for stray in seen.strays))
    if claim is None:
        return Wait("the claim is gone")
    return _BY_PHASE[claim.status.phase](seen, claim)


# Pending, Error


@dataclass(frozen=True, slots=True)
class _Blocked:
    """The claim cannot be met for now."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Starting:
    """The instance is there but not ready; `detail` if there is more to say."""

    detail: str = ""
    again_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class _Usable:
    """The instance is there and ready."""

    pod: InstanceSeen


def _obtain(seen: Seen, claim: ClaimSeen) -> Plan:
    if claim.leaving:
        return _go(claim, ClaimPhase.RELEASING, "Releasing", _farewell(claim))
    in_error = claim.status.phase == ClaimPhase.ERROR
    match _next(seen, claim):
        case _Usable(pod):
            if in_error:
                return _recovered(seen, claim, "")
            return _activate(seen, claim, pod)
        case _Starting(detail, again_in):
            if in_error:
                return _recovered(seen, claim, detail)
            plan = _said(claim, ClaimPhase.PENDING, "Starting", detail)
            return plan or Wait(detail or "the instance is starting", again_in)
        case _Blocked(reason, detail):
            return _failed(seen, claim, reason, detail) or Wait(detail)
        case Do(steps):
            return _attempt(seen, claim, *steps)
        case Wait(why) as wait:  # for the workload: in Error as well, or the phase would flap
            detail = claim.status.detail if in_error else why
            return _said(claim, claim.status.phase, "Waiting", detail) or wait
        case other:
            return other


def _next(seen: Seen, claim: ClaimSeen) -> Plan | _Blocked | _Starting | _Usable:
    """Say what brings the claim closer to its instance, whatever its phase."""
    pod, intent = seen.pod, claim.intent
    its_own = pod is not None and intent is not None and _is_its_pod(pod, claim, intent)
    if pod is not None and intent is not None and its_own and not (pod.terminating or pod.ended):
        return _with_own_pod(seen, intent, pod)
    blocked = _workload_blocks(claim.workload, seen.workload)
    if blocked is not None:
        return blocked
    assert seen.workload is not None, "a missing workload blocks"
    if not seen.sole and (not claim.canonical or _has_rival(seen)):
        return Do((LookForRival(),))
    if intent is None:
        return _choice(seen, claim)
    if not claim.held:
        return WriteIntent(intent)  # the intent came with the object, the finalizer did not
    beside: tuple[Step, ...] = () if seen.sole else (LookForRival(),)
    if pod is None:
        # A cold Pod that is refused may be replaced by a warm one: there is nothing to abandon.
        refused = seen.setback is not None and seen.setback.step == CreatePod.__name__
        if intent.uid or (refused and seen.spare is not None):
            return _choice(seen, claim)
        return Do((CreatePod(intent.pod), *beside))
    if its_own or pod.uid != intent.uid or pod.claim is not None or pod.terminating or not pod.pool:
        # Its own, and at its end (it was never Active: nothing in it is worth waiting for); another
        # Pod of that name; another claim's; or none that a claim may have.
        return _choice(seen, claim)
    if not adoptable(pod, seen.workload, on_healthy_node=seen.pod_on_healthy_node):
        return Do((DeletePod(pod, "a claim had chosen it, and it is not fit to be used"),))
    return Do((BindPod(pod), *beside))


def _with_own_pod(
    seen: Seen, intent: Intent, pod: InstanceSeen
) -> Plan | _Blocked | _Starting | _Usable:
    if not seen.sole:
        # Given up by choosing nothing: from then on the Pod is a stray, and cannot become Active.
        return WriteIntent(None) if _has_rival(seen) else Do((LookForRival(),))
    if not intent.uid:
        return WriteIntent(Intent(pod.name, pod.uid))
    if pod.usable:
        return _Usable(pod)
    if pod.image_failure:
        left = IMAGE_PATIENCE - pod.waited
        detail = f"the image does not arrive: {pod.image_failure}"
        return _Starting(detail, left) if left > NOW else _Blocked("ImageUnavailable", detail)
    if pod.unschedulable:
        return _Starting(f"no node can take the instance: {pod.unschedulable}")
    return _Starting(pod.trouble)


def _has_rival(seen: Seen) -> bool:
    setback = seen.setback
    return setback is not None and setback.step == LookForRival.__name__ and setback.refused


def _workload_blocks(name: str, workload: Blueprint | None) -> _Blocked | Wait | None:
    if workload is None:
        return _Blocked("WorkloadNotFound", f"workload {name} does not exist")
    if workload.deleting:
        return _Blocked("WorkloadDeleted", f"workload {name} is being deleted")
    if workload.phase == WorkloadPhase.ERROR:
        return _Blocked("WorkloadInError", f"workload {name} is in Error: {workload.detail}")
    if workload.phase == WorkloadPhase.CREATING:
        return Wait(f"workload {name} is being prepared")
    return None


def _choice(seen: Seen, claim: ClaimSeen) -> WriteIntent:
    """Choose a warm Pod if there is one, else a cold one."""
    if seen.spare is not None:
        return WriteIntent(seen.spare)
    return WriteIntent(intents.cold(claim.tenant, claim.workload, claim.uid, claim.version))


def adoptable(pod: InstanceSeen, workload: Blueprint, *, on_healthy_node: bool) -> bool:
    """Whether a warm Pod may be given to a tenant."""
    return (
        pod.claim is None
        and pod.usable
        and bool(pod.pool)
        and pod.pool_status == READY
        and pod.workload == workload.name
        and pod.template == workload.template
        and on_healthy_node
    )


def _is_its_pod(pod: InstanceSeen, claim: ClaimSeen, intent: Intent) -> bool:
    return (
        pod.claim is not None
        and pod.claim.uid == claim.uid
        and pod.name == intent.pod
        and intent.uid in ("", pod.uid)
    )


def _activate(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Plan:
    status = _status(claim, ClaimPhase.ACTIVE, "")
    status = structs.replace(
        status,
        instance_id=pod.name,
        endpoint=Endpoint(host=pod.ip, port=pod.port),
        # S0: written once.
        source=status.source or (Source.POOL if pod.source == "pool" else Source.COLD),
        claimed_at=status.claimed_at or seen.now.replace(microsecond=0),
        conditions=_conditions(seen, claim, pod),
    )
    return WriteStatus(status, "Active")


# Active


def _keep(seen: Seen, claim: ClaimSeen) -> Plan:
    if claim.leaving:
        return _go(claim, ClaimPhase.RELEASING, "Releasing", _farewell(claim))
    pod = seen.pod
    lost = _lost(claim, pod)
    if pod is None or lost:
        detail = f"instance {claim.status.instance_id} {lost}"
        return _go(claim, ClaimPhase.RELEASING, "InstanceLost", detail)
    status = structs.replace(
        _status(claim, ClaimPhase.ACTIVE, claim.status.detail),
        conditions=_conditions(seen, claim, pod),
        endpoint=Endpoint(host=pod.ip, port=pod.port) if pod.usable else claim.status.endpoint,
    )
    if status != claim.status:
        return WriteStatus(status, "InstanceChanged")
    if not _is_true(status.conditions, IDENTITY_DELIVERED):
        return _patiently(seen, DeliverIdentity(pod.name, pod.uid))
    return Wait("the claim is met")


def _lost(claim: ClaimSeen, pod: InstanceSeen | None) -> str:
    """Say what became of an Active claim's instance; nothing if it is there."""
    if pod is None or claim.intent is None or not _is_its_pod(pod, claim, claim.intent):
        return "was destroyed or lost"
    if pod.terminating:
        return "is being deleted by somebody else"
    return f"has ended: {pod.ended}" if pod.ended else ""


# Releasing, Released, ReleaseFailed


def _release(seen: Seen, claim: ClaimSeen) -> Plan:
    pod, intent = seen.pod, claim.intent
    if pod is not None and intent is not None:
        # A warm Pod that was chosen and not bound yet goes as well: somebody may be about to.
        chosen = pod.claim is None and bool(pod.pool) and pod.uid == intent.uid
        if chosen or _is_its_pod(pod, claim, intent):
            if pod.terminating and not pod.grace:
                return Wait(f"instance {pod.name} is stopping")
            return _patiently(seen, DeletePod(pod, claim.status.detail))
    status = _status(claim, ClaimPhase.RELEASED, claim.status.detail)
    return WriteStatus(structs.replace(status, endpoint=None, instance_id=""), "Released")


def _let_go(seen: Seen, claim: ClaimSeen) -> Plan:
    if claim.held:
        return _patiently(seen, RemoveFinalizer())
    if claim.release and not claim.deleting:
        return _patiently(seen, DeleteClaim())
    return Wait("released")


def _leave(seen: Seen, claim: ClaimSeen) -> Plan:
    if claim.leaving:
        return _go(claim, ClaimPhase.RELEASING, "Releasing", _farewell(claim))
    return Wait(claim.status.detail)


_BY_PHASE: dict[ClaimPhase, Callable[[Seen, ClaimSeen], Plan]] = {
    ClaimPhase.PENDING: _obtain,
    ClaimPhase.ERROR: _obtain,
    ClaimPhase.ACTIVE: _keep,
    ClaimPhase.RELEASING: _release,
    ClaimPhase.RELEASED: _let_go,
    ClaimPhase.RELEASE_FAILED: _leave,
}

# What they share


def _attempt(seen: Seen, claim: ClaimSeen, *steps: Step) -> Plan:
    """Try steps; say so in the status when they are refused or have failed too often."""
    setback = _setback_of(seen, steps)
    if setback is not None and (setback.refused or setback.count >= ATTEMPTS):
        reason = "Refused" if setback.refused else "StepFails"
        plan = _failed(seen, claim, reason, setback.why)
        if plan is not None:
            return plan
    return _patiently(seen, *steps)


def _patiently(seen: Seen, *steps: Step) -> Plan:
    """Try steps, unless one of them has just failed: then when its time has come."""
    setback = _setback_of(seen, steps)
    if setback is not None and setback.due_in > NOW:
        return Wait(setback.why, setback.due_in)
    return Do(steps)


def _setback_of(seen: Seen, steps: tuple[Step, ...]) -> Setback | None:
    setback = seen.setback
    if setback is None or setback.step not in {type(step).__name__ for step in steps}:
        return None
    return setback


def _go(claim: ClaimSeen, phase: ClaimPhase, reason: str, detail: str) -> WriteStatus:
    return WriteStatus(_status(claim, phase, detail), reason)


def _said(claim: ClaimSeen, phase: ClaimPhase, reason: str, detail: str) -> WriteStatus | None:
    """Write the phase with its detail; None if the status says so already."""
    plan = _go(claim, phase, reason, detail)
    return None if plan.status == claim.status else plan


def _failed(seen: Seen, claim: ClaimSeen, reason: str, detail: str) -> WriteStatus | None:
    """Write Error, with the reason where whoever asks later finds it; None if it is there."""
    return _without(seen, claim, ClaimPhase.ERROR, reason, detail)


def _recovered(seen: Seen, claim: ClaimSeen, detail: str) -> WriteStatus:
    """Leave Error, which is always a change."""
    plan = _without(seen, claim, ClaimPhase.PENDING, "Recovered", detail)
    assert plan is not None, "another phase is another status"
    return plan


def _without(
    seen: Seen, claim: ClaimSeen, phase: ClaimPhase, reason: str, detail: str
) -> WriteStatus | None:
    """Write a phase in which there is no instance to be used, and why there is none."""
    conditions = with_condition(
        claim.status.conditions,
        INSTANCE_READY,
        ConditionStatus.FALSE,
        reason,
        detail[:SAID],
        generation=claim.generation,
        now=seen.now,
    )
    status = structs.replace(_status(claim, phase, detail), conditions=conditions)
    return None if status == claim.status else WriteStatus(status, reason)


def error_reason(status: ClaimStatus) -> str:
    """Return the word for why a claim is in Error, for programs."""
    ready = find(status.conditions, INSTANCE_READY)
    return "ClaimError" if ready is None else ready.reason


def _status(claim: ClaimSeen, phase: ClaimPhase, detail: str) -> ClaimStatus:
    return structs.replace(
        claim.status,
        phase=CLAIM.move(claim.status.phase, phase),
        detail=detail,
        observed_generation=claim.generation,
    )


def _farewell(claim: ClaimSeen) -> str:
    done = "deleted" if claim.deleting else "released"
    return done if claim.status.phase == ClaimPhase.ACTIVE else f"{done} before it became Active"


def _conditions(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> tuple[Condition, ...]:
    why = pod.trouble or pod.image_failure or "the instance is not ready"
    ready = (
        (ConditionStatus.TRUE, "Ready", "")
        if pod.usable
        else (ConditionStatus.FALSE, "NotReady", why)
    )
    # The files lie in memory: a machine that was down has lost them, and its agents begin anew.
    life = f"after {pod.agent_restarts} restarts of the agent" if pod.agent_restarts else ""
    before = find(claim.status.conditions, IDENTITY_DELIVERED)
    done = before is not None and (before.status, before.message) == (ConditionStatus.TRUE, life)
    told = (
        (ConditionStatus.TRUE, "Delivered", life)
        if done or seen.delivered
        else (ConditionStatus.UNKNOWN, "Delivering", "the instance does not know yet whose it is")
    )
    conditions = claim.status.conditions
    for name, stated in ((INSTANCE_READY, ready), (IDENTITY_DELIVERED, told)):
        conditions = with_condition(
            conditions, name, *stated, generation=claim.generation, now=seen.now
        )
    return conditions


def _is_true(conditions: tuple[Condition, ...], name: str) -> bool:
    found = find(conditions, name)
    return found is not None and found.status == ConditionStatus.TRUE
