"""What to do about a claim that has its instance: Active. Pure.

gone? asked to go? ─► release      idle for too long (tenancy/idle/verdict.py)? ─► release
is its node to be emptied, and its turn has come (cordons.py)? ─► release
ready? frozen because its disk is full? knows whose it is? ─► say so, tell it
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import find
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.tenancy.claims.deciding.status import (
    DISK_FULL,
    IDENTITY_DELIVERED,
    begin_release,
    is_true,
    moved,
    release_reason,
    with_disk,
    with_instance,
)
from boilerhouse.tenancy.claims.deciding.trying import NOW, with_backoff
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Endpoint
from boilerhouse.tenancy.claims.seen import (
    AskChanges,
    ClaimSeen,
    DeliverIdentity,
    LookAtUsage,
    NoteActivity,
    Plan,
    Seen,
    Step,
)
from boilerhouse.tenancy.idle.verdict import Ask, Keep, Restamp, verdict
from boilerhouse.tenancy.instances.seen import InstanceSeen
from boilerhouse.tenancy.workloads.model import IdleAction, WorkloadSpec

LOOK_AGAIN = timedelta(seconds=5)  # at an instance that is not ready


def keep(seen: Seen, claim: ClaimSeen) -> Plan:
    """Return what an Active claim needs, or how it ends."""
    if claim.leaving:
        return begin_release(claim, "Releasing", release_reason(claim))
    pod = seen.pod
    lost = what_became(claim, pod)
    if pod is None or lost:
        return begin_release(claim, "InstanceLost", f"instance {claim.status.instance_id} {lost}")
    if seen.cordoned:
        # In use or not: what is saved now comes back elsewhere, what a drain ends may not.
        return begin_release(claim, "NodeCordoned", f"the node {seen.cordoned} is cordoned")
    spec = None if seen.workload is None else seen.workload.spec
    told = _told(seen, claim, pod)
    if told is not None:
        return told
    plans = [
        _unready(pod, claim),
        _deliver(seen, claim, pod),
        _idle(seen, claim, pod, spec),
        _usage(seen, pod, spec),
    ]
    waits = []
    for plan in plans:
        if not isinstance(plan, Wait):
            return plan
        waits.append(plan)
    soonest = min((wait.again_in for wait in waits if wait.again_in is not None), default=None)
    return Wait(next((wait.why for wait in waits if wait.why), "claim satisfied"), soonest)


def _unready(pod: InstanceSeen, claim: ClaimSeen) -> Wait:
    """Look again at an instance that is not ready: what its probe says may have changed."""
    if pod.usable:
        return Wait("")
    return Wait(claim.status.detail, LOOK_AGAIN if pod.running and not pod.trouble else None)


def what_became(claim: ClaimSeen, pod: InstanceSeen | None) -> str:
    """Say what became of a claim's instance; nothing if it is there."""
    if pod is None or not claim.owns(pod):
        return "was destroyed or lost"
    if pod.terminating:
        return "is being deleted by somebody else"
    return f"has ended: {pod.ended}" if pod.ended else ""


def _told(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> WriteStatus[ClaimStatus] | None:
    """Write what has changed about the instance; None if the status says so already."""
    status = moved(claim, ClaimPhase.ACTIVE, claim.status.detail)
    status = with_instance(seen, status, pod)
    if pod.usable:
        status = structs.replace(status, endpoint=Endpoint(host=pod.ip, port=pod.port))
    status = with_disk(seen, status)
    if status == claim.status:
        return None
    full = is_true(status.conditions, DISK_FULL)
    if full == is_true(claim.status.conditions, DISK_FULL):
        return WriteStatus(status, "InstanceChanged")
    stated = find(status.conditions, DISK_FULL)
    assert stated is not None, "it has changed"
    return WriteStatus(status, DISK_FULL if full else stated.reason)


def _deliver(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Do[Step] | Wait:
    if is_true(claim.status.conditions, IDENTITY_DELIVERED):
        return Wait("")
    return with_backoff(seen, DeliverIdentity(pod.name, pod.uid))


def _usage(seen: Seen, pod: InstanceSeen, spec: WorkloadSpec | None) -> Do[Step] | Wait:
    if not pod.overlays or spec is None or seen.usage is None:
        return Wait("")
    if seen.usage.due_in > NOW:
        return Wait("", seen.usage.due_in)
    return Do((LookAtUsage(pod, spec.resources.disk_gb),))


def _idle(seen: Seen, claim: ClaimSeen, pod: InstanceSeen, spec: WorkloadSpec | None) -> Plan:
    idle = None if spec is None else spec.idle
    found = verdict(seen.now, idle, claim.status.claimed_at, claim.last_activity, seen.changes)
    match found:
        case Keep(until):
            return Wait("", None if until is None else max(until - seen.now, timedelta(0)))
        case Ask(directories):
            return Do((AskChanges(pod, directories, found.since_ns),))
        case Restamp():
            return NoteActivity()
    assert idle is not None, "nothing is idle without a rule for it"
    # S3: destroy skips extraction. Activity that races this makes the write fail.
    return begin_release(claim, "Idle", found.why, drop=idle.action == IdleAction.DESTROY)
