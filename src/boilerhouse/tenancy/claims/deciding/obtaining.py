"""What to do about a claim that has no instance yet: Pending, Error. Pure.

rivals? ─► choose (intent.py) ─► bind or create ─► files (restoring.py) ─► ready ─► hook ─► Active
                  ◄── the workload was changed before the Pod could be used ──┘

Each rule reads as: if that is so, then this. `intent.py` says why the order of the rules about
Pods is what it is. In Error the same steps go on as in Pending, with the back-off of the step that
failed; the phase goes back to Pending when the step has worked, so it does not flap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from msgspec import structs

from boilerhouse.core.names import READY, TENANT_RULE, is_tenant_id
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.node.agent.disk.limit import Shortage
from boilerhouse.tenancy.claims import intent as intents
from boilerhouse.tenancy.claims.deciding import restoring
from boilerhouse.tenancy.claims.deciding.status import (
    begin_release,
    failed,
    moved,
    recovered,
    release_reason,
    unusable,
    with_disk,
    with_instance,
    write_if_changed,
)
from boilerhouse.tenancy.claims.deciding.trying import NOW, failure_of, run_or_fail, waiting
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import Endpoint
from boilerhouse.tenancy.claims.seen import (
    BindPod,
    ClaimSeen,
    CreatePod,
    DeletePod,
    LookAtUsage,
    LookForRival,
    Plan,
    RunHook,
    Seen,
    Step,
    WriteIntent,
)
from boilerhouse.tenancy.instances.seen import Blueprint, InstanceSeen
from boilerhouse.tenancy.workloads.machine import WorkloadPhase

IMAGE_PATIENCE = timedelta(minutes=1)  # kubelet has tried three times by then
LOOK_AGAIN = timedelta(seconds=5)  # at an instance that starts and that nothing is heard of
LOOK_SOON = timedelta(seconds=2)  # at one that runs and is not ready: its probe may say why by then


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


def obtain(seen: Seen, claim: ClaimSeen) -> Plan:
    """Return what brings the claim closer to Active, or says why it is not."""
    if claim.leaving:
        return begin_release(claim, "Releasing", release_reason(claim))
    in_error = claim.status.phase == ClaimPhase.ERROR
    match _next(seen, claim):
        case _Usable(pod):
            if in_error:
                return recovered(seen, claim, "")
            return _activate(seen, claim, pod)
        case _Starting(detail, again_in):
            if in_error and seen.failure is not None and seen.failure.step in seen.busy:
                return Wait(detail, LOOK_AGAIN)  # once more what made it an Error
            if in_error:
                return recovered(seen, claim, detail)
            plan = write_if_changed(claim, ClaimPhase.PENDING, "Starting", detail)
            return plan or Wait(detail or "the instance is starting", again_in or LOOK_AGAIN)
        case _Blocked(reason, detail):
            return failed(seen, claim, reason, detail) or Wait(detail)
        case Do(steps):
            return run_or_fail(seen, claim, *steps)
        case Wait(why) as wait:  # for the workload: in Error as well, or the phase would flap
            detail = claim.status.detail if in_error else why
            return write_if_changed(claim, claim.status.phase, "Waiting", detail) or wait
        case other:
            return other


def _next(seen: Seen, claim: ClaimSeen) -> Plan | _Blocked | _Starting | _Usable:
    """Say what brings the claim closer to its instance, whatever its phase."""
    pod, intent = seen.pod, claim.intent
    if not is_tenant_id(claim.tenant):  # the API server cannot check all of the rule
        # Nothing may be chosen for it, nor stay chosen: what it has is a stray from then on.
        return _bad_tenant(claim) if intent is None else WriteIntent(None)
    its_own = pod is not None and claim.owns(pod)
    if pod is not None and intent is not None and its_own and not (pod.terminating or pod.ended):
        return _with_own_pod(seen, claim, intent, pod)
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
    look_up = restoring.must_look(seen, claim, seen.workload.keeps_files)
    beside: tuple[Step, ...] = look_up if seen.sole else (LookForRival(), *look_up)
    if pod is None:
        # A cold Pod that is refused may be replaced by a warm one: there is nothing to abandon.
        refused = seen.failure is not None and seen.failure.step == CreatePod.__name__
        if intent.uid or (refused and seen.spare is not None):
            return _choice(seen, claim)
        if look_up:
            return Do(beside)  # it must be known before the Pod is made what it waits for
        return Do((CreatePod(intent.pod, restoring.wanted(claim, seen.stored)), *beside))
    if not _is_free(pod, intent):
        # Its own, and at its end (it was never Active: nothing in it is worth waiting for); another
        # Pod of that name; another claim's; or none that a claim may have.
        return _choice(seen, claim)
    fit = adoptable(pod, seen.workload, on_healthy_node=seen.pod_on_healthy_node)
    if not fit or restoring.misfit(seen, claim, pod):
        return Do((DeletePod(pod, "a claim had chosen it, and it is not fit to be used"),))
    return Do((BindPod(pod), *beside))


def keeps_choice(seen: Seen, claim: ClaimSeen) -> bool:
    """Whether the Pod that was chosen can be had, or is: then no other is chosen."""
    pod, intent = seen.pod, claim.intent
    if pod is None or intent is None or restoring.misfit(seen, claim, pod):
        return False
    if claim.owns(pod) and not (pod.terminating or pod.ended):
        return not _is_outdated(pod, seen.workload)
    return _is_free(pod, intent)


def _is_free(pod: InstanceSeen, intent: Intent) -> bool:
    """Whether the Pod is the very one that was chosen, and waits for its claim."""
    return pod.uid == intent.uid and pod.claim is None and not pod.terminating and bool(pod.pool)


def _with_own_pod(
    seen: Seen, claim: ClaimSeen, intent: Intent, pod: InstanceSeen
) -> Plan | _Blocked | _Starting | _Usable:
    if not seen.sole and _has_rival(seen):
        # Given up by choosing nothing: from then on the Pod is a stray, and cannot become Active.
        return WriteIntent(None)
    look_up = restoring.must_look(seen, claim, pod.overlays)
    if not seen.sole or look_up:
        return Do(look_up if seen.sole else (LookForRival(), *look_up))
    if not intent.uid:
        return WriteIntent(Intent(pod.name, pod.uid))
    if restoring.misfit(seen, claim, pod):
        return _choice(seen, claim)  # the CAS makes it a stray; it was never Active
    found = _filled(seen, claim, pod)
    if _is_outdated(pod, seen.workload) and not isinstance(found, _Usable):
        # Given up by the CAS, as above. What keeps it from being used may be what was changed; one
        # that can be used is what the claim had asked for.
        return _choice(seen, claim)
    return found


def _is_outdated(pod: InstanceSeen, workload: Blueprint | None) -> bool:
    """Whether the next Pod would be another: not while a new spec is checked, or is in Error."""
    return workload is not None and workload.ready and pod.template != workload.template


def _filled(
    seen: Seen, claim: ClaimSeen, pod: InstanceSeen
) -> Plan | _Blocked | _Starting | _Usable:
    match restoring.bring_back(seen, claim, pod):
        case Wait(why):
            # That it begins anew is over in a moment, which a write would only make longer.
            return _Starting(pod.trouble if pod.restored is not None else why)
        case None:
            return _ready(seen, claim, pod)
        case plan:
            return plan


def _ready(
    seen: Seen, claim: ClaimSeen, pod: InstanceSeen
) -> Plan | _Blocked | _Starting | _Usable:
    filled = pod.restored is not None or not restoring.wanted(claim, seen.stored)
    spec = None if seen.workload is None else seen.workload.spec
    if filled and spec is not None and seen.usage is not None and seen.usage.due_in <= NOW:
        # Its tenant may be frozen: restored with more than its disk holds, it never got ready.
        return Do((LookAtUsage(pod, spec.resources.disk_gb),))
    frozen = seen.usage is not None and Shortage.freezes(seen.usage.full)
    if filled and (pod.usable or frozen):
        hook = restoring.hook(seen, claim, pod)
        if hook is None:
            return _Usable(pod)
        if RunHook.__name__ not in seen.busy:
            return Do((hook,))
        failure = failure_of(seen, RunHook)
        return _Starting("its hook runs" if failure is None else waiting(failure))
    if pod.image_failure:
        left = IMAGE_PATIENCE - pod.waited
        detail = f"the image does not arrive: {pod.image_failure}"
        return _Starting(detail, left) if left > NOW else _Blocked("ImageUnavailable", detail)
    if pod.unschedulable:
        return _Starting(f"no node can take the instance: {pod.unschedulable}")
    why = unusable(pod)
    return _Starting(why, LOOK_SOON if pod.running and not (pod.ready or why) else None)


def _has_rival(seen: Seen) -> bool:
    failure = seen.failure
    return failure is not None and failure.step == LookForRival.__name__ and failure.refused


def _bad_tenant(claim: ClaimSeen) -> _Blocked:
    way_out = "delete the claim and make one for another id"
    return _Blocked("BadTenantId", f"{claim.tenant!a} is not a tenant id: {TENANT_RULE}; {way_out}")


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


def _activate(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Plan:
    status = moved(claim, ClaimPhase.ACTIVE, "")
    status = structs.replace(
        status,
        instance_id=pod.name,
        endpoint=Endpoint(host=pod.ip, port=pod.port),
        # S0: written once.
        source=status.source or restoring.source_of(seen, claim, pod),
        claimed_at=status.claimed_at or seen.now.replace(microsecond=0),
    )
    status = with_instance(seen, restoring.with_files(seen, claim, status), pod)
    return WriteStatus(with_disk(seen, status), "Active")
