"""What to do about a claim on its way out: Releasing, ReleaseFailed, Released. Pure.

Releasing ─► hook ─► Save ─► written down ─► DeletePod ─► Released ─► finalizer, object
                 └─► three failures ─► ReleaseFailed ─► later, or when asked ─► Releasing
                                                   └─► claimed again ─► Thaw ─► Active

The Pod is deleted on the strength of what the status says: which version was saved, of which life
of the Pod. A Pod whose processes have begun anew since (its node was down) is saved once more.

From the moment that a saved version is in the status of a Releasing claim, its only way is on to
Released. Somebody who still sees it so, however late, may delete the Pod: nobody can have got it
back meanwhile. That is why a save that fails after that moment does not lead to ReleaseFailed.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.plan import Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.tenancy.claims.deciding.epochs import DELAYS, TRIES, release_of
from boilerhouse.tenancy.claims.deciding.epochs import failed as failed_round
from boilerhouse.tenancy.claims.deciding.keeping import what_became
from boilerhouse.tenancy.claims.deciding.status import (
    DISK_FULL,
    INSTANCE_READY,
    SAID,
    SAVED_IN_PART,
    SNAPSHOT_CONFLICT,
    begin_release,
    is_true,
    moved,
    stating,
    with_disk,
    with_instance,
    write_if_changed,
)
from boilerhouse.tenancy.claims.deciding.trying import NOW, failure_of, with_backoff
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Release, SnapshotRefs
from boilerhouse.tenancy.claims.seen import (
    QUEUED,
    ClaimSeen,
    DeleteClaim,
    DeletePod,
    LookAtUsage,
    LookUpSnapshot,
    Plan,
    RunHook,
    Save,
    SavedSeen,
    Seen,
    Step,
    Thaw,
)
from boilerhouse.tenancy.instances.seen import InstanceSeen
from boilerhouse.tenancy.workloads.model import Filesystem, OnFailure, WorkloadSpec

PRE_HIBERNATE = "preHibernate"
_HELD = "; its Claim is deleted and held by the finalizer "
# A process that was told to end may be writing its last: it is not frozen in the middle of that.
LAST_WORDS = timedelta(seconds=5)


def release(seen: Seen, claim: ClaimSeen) -> Plan:
    """Return what is left to do until the instance is gone, and its files are safe."""
    pod, intent = seen.pod, claim.intent
    if pod is not None and intent is not None:
        # A warm Pod that was chosen and not bound yet goes as well: somebody may be about to.
        chosen = pod.claim is None and bool(pod.pool) and pod.uid == intent.uid
        if chosen or claim.owns(pod):
            if pod.terminating and not pod.grace:
                return Wait(f"instance {pod.name} is stopping")
            plan = _saving(seen, claim, pod) if _must_save(claim, pod) else None
            return plan or with_backoff(seen, DeletePod(pod, claim.status.detail))
    return _released(seen, claim)


def _must_save(claim: ClaimSeen, pod: InstanceSeen) -> bool:
    """Whether there is something in the Pod that is the tenant's, and can be reached."""
    dropped = claim.force or release_of(claim.status).drop
    was_active = claim.status.claimed_at is not None
    return was_active and pod.overlays and not dropped and not pod.ended and claim.owns(pod)


def _saving(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Plan | None:
    """Return what is left to do before the Pod may go; None if it may."""
    if QUEUED in seen.busy:
        return Wait("the files of others are saved first")
    if seen.busy & {Save.__name__, RunHook.__name__}:
        return Wait("the files are being saved")
    refs, past = claim.status.snapshot or SnapshotRefs(), release_of(claim.status)
    if refs.saved and past.saved_of == pod.incarnation:
        return None
    if seen.saved is not None:
        return _written_down(seen, claim, pod, seen.saved)
    if pod.terminating and pod.tenant_runs:
        left = min(LAST_WORDS, timedelta(seconds=pod.grace / 4)) - pod.waited
        if left > NOW:
            return Wait("the instance was told to stop by somebody else", left)
    spec = None if seen.workload is None else seen.workload.spec
    step = _hook(seen, claim, pod, spec) or _look_up(seen, claim) or _save(seen, claim, pod, spec)
    failure = failure_of(seen, step)
    # A Pod that is going anyway is saved while it can be: its grace is all the time there is.
    final = pod.terminating or bool(refs.saved)
    if failure is not None and failure.count >= TRIES and not final:
        status = moved(claim, ClaimPhase.RELEASE_FAILED, f"the files are not saved: {failure.why}")
        asked = claim.leaving
        round_ = failed_round(claim.status, failure.why, seen.now, tries=failure.count, asked=asked)
        return WriteStatus(structs.replace(status, release=round_), "ReleaseFailed")
    return with_backoff(seen, step)


def _look_up(seen: Seen, claim: ClaimSeen) -> LookUpSnapshot | None:
    """Return the look-up if the instance started clean while nobody could say what is stored.

    Nobody can have stored anything since: what is current is what was when it started.
    """
    known = claim.resume or claim.status.snapshot is not None or seen.stored is not None
    return None if known else LookUpSnapshot()


def _refs(seen: Seen, claim: ClaimSeen) -> SnapshotRefs:
    if claim.status.snapshot is not None:
        return claim.status.snapshot
    return SnapshotRefs() if claim.resume else SnapshotRefs(base=seen.stored or "")


def _save(seen: Seen, claim: ClaimSeen, pod: InstanceSeen, spec: WorkloadSpec | None) -> Save:
    keep = Filesystem().keep_versions if spec is None else spec.filesystem.keep_versions
    refs = _refs(seen, claim)
    clean = refs.base != "" and not claim.resume
    return Save(pod, refs.base, release_of(claim.status).epoch, keep, clean)


def _hook(
    seen: Seen, claim: ClaimSeen, pod: InstanceSeen, spec: WorkloadSpec | None
) -> RunHook | None:
    given = None if spec is None or spec.hooks is None else spec.hooks.pre_hibernate
    if given is None or seen.hooked or not pod.tenant_runs or pod.terminating:
        return None
    # In an instance that is frozen a hook may need what stands still: a release must be a way out.
    frozen = is_true(claim.status.conditions, DISK_FULL)
    return RunHook(
        pod,
        PRE_HIBERNATE,
        given.command,
        timedelta(seconds=given.timeout_seconds),
        given.on_failure == OnFailure.FAIL and not frozen,
        str(release_of(claim.status).epoch),
    )


def _written_down(
    seen: Seen, claim: ClaimSeen, pod: InstanceSeen, saved: SavedSeen
) -> WriteStatus[ClaimStatus]:
    refs = structs.replace(_refs(seen, claim), saved=saved.digest)
    past = structs.replace(release_of(claim.status), saved_of=pod.incarnation)
    status = moved(claim, ClaimPhase.RELEASING, claim.status.detail)
    status = structs.replace(status, snapshot=refs, release=past)
    reason = "Saved"
    if saved.skipped:
        reason, left = SAVED_IN_PART, f"not in any snapshot: {'; '.join(saved.skipped)}"
        status = stating(seen, status, reason, ConditionStatus.TRUE, "LeftOut", left[:SAID])
    if not saved.side_version:
        return WriteStatus(status, reason)
    why = (
        f"version {saved.digest} is kept beside the current one, which came to be while the"
        " instance ran; restore it to make it current"
    )
    status = stating(seen, status, SNAPSHOT_CONFLICT, ConditionStatus.TRUE, "Aside", why)
    return WriteStatus(status, "SnapshotConflict")


def _released(seen: Seen, claim: ClaimSeen) -> Plan:
    status = moved(claim, ClaimPhase.RELEASED, claim.status.detail + _loss(seen, claim))
    over = structs.replace(
        release_of(claim.status), released_at=seen.now.replace(microsecond=0), next_try_at=None
    )
    status = structs.replace(status, endpoint=None, instance_id="", release=over)
    gone = (ConditionStatus.FALSE, "Released", "the instance is gone")
    if find(status.conditions, INSTANCE_READY) is not None:
        status = stating(seen, status, INSTANCE_READY, *gone)
    if is_true(status.conditions, DISK_FULL):
        status = stating(seen, status, DISK_FULL, *gone)
    return WriteStatus(status, "Released")


def _loss(seen: Seen, claim: ClaimSeen) -> str:
    """Say what is not in any snapshot, if that may be something."""
    kept = seen.workload is not None and seen.workload.keeps_files
    saved = claim.status.snapshot is not None and bool(claim.status.snapshot.saved)
    if not kept or saved or claim.status.claimed_at is None:
        return ""
    return "; what was newer than the last snapshot is lost"


def let_go(seen: Seen, claim: ClaimSeen) -> Plan:
    """Return what is left to do about a Released claim."""
    if claim.held:
        return with_backoff(seen, RemoveFinalizer())
    if claim.deleting:
        return _held_by_others(claim) if claim.finalizers else Wait("released")
    if claim.release:
        return with_backoff(seen, DeleteClaim())
    spec = None if seen.workload is None else seen.workload.spec
    at = release_of(claim.status).released_at
    if spec is None or spec.idle.released_ttl_seconds is None or at is None:
        return Wait("released")
    left = at + timedelta(seconds=spec.idle.released_ttl_seconds) - seen.now
    return with_backoff(seen, DeleteClaim()) if left <= NOW else Wait("released", left)


def _held_by_others(claim: ClaimSeen) -> Plan:
    """Say which finalizers keep a deleted Claim: until they are off, its tenant has no other."""
    cause = claim.status.detail.partition(_HELD)[0]
    detail = (
        f"{cause}{_HELD}{', '.join(claim.finalizers)}, which another controller must take off"
        " before the tenant can claim again"
    )
    return write_if_changed(claim, ClaimPhase.RELEASED, "HeldByFinalizer", detail) or Wait(detail)


def stay(seen: Seen, claim: ClaimSeen) -> Plan:
    """Return what becomes of a claim whose files could not be saved."""
    pod, past = seen.pod, release_of(claim.status)
    if pod is None or not claim.owns(pod) or pod.ended:
        lost = f"instance {claim.status.instance_id} {what_became(claim, pod)}"
        return begin_release(claim, "InstanceLost", f"{past.cause}; {lost}")
    if claim.force:
        return begin_release(claim, "Forced", f"{past.cause}; by force", drop=True)
    if claim.again > past.epoch and not claim.leaving and not pod.terminating:
        return _back(seen, claim, pod)
    asked_now = claim.leaving and not past.asked
    if pod.terminating or asked_now or claim.retry == past.epoch or past.next_try_at is None:
        return begin_release(claim, "Retrying", past.cause)
    # No longer than the longest, whatever became of the clock.
    left = min(past.next_try_at - seen.now, DELAYS[-1])
    if left <= NOW:
        return begin_release(claim, "Retrying", past.cause)
    return Wait(claim.status.detail, left)


def _back(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Plan:
    """Give the tenant its instance back, with everything that is in it."""
    step: Step = Thaw(pod, claim.again)
    if not seen.thawed:
        return with_backoff(seen, step)
    spec = None if seen.workload is None else seen.workload.spec
    if spec is not None and seen.usage is not None and seen.usage.due_in <= NOW:
        # Its disk may have filled up since: who claims is told so, and not that it is not ready.
        return Do((LookAtUsage(pod, spec.resources.disk_gb),))
    status: ClaimStatus = moved(claim, ClaimPhase.ACTIVE, "")
    refs = claim.status.snapshot
    status = structs.replace(
        status,
        release=Release(epoch=claim.again),
        snapshot=None if refs is None else structs.replace(refs, saved=""),
    )
    status = with_disk(seen, with_instance(seen, status, pod))
    return WriteStatus(status, "ClaimedAgain")
