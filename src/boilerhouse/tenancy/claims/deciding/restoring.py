"""How a tenant's files come back before its instance is handed over. Pure.

LookUpSnapshot ─► is there a version? ─► written down in the status ─► Restore ─► noted on the Pod
             └──► none, or resume is false: nothing to wait for        ─► hook ─► Active

Whether there is a version only the helper knows: while it is away such a claim waits, and says so.
With `resume: false` it starts clean whatever the answer; what it may replace later is then looked
up before it is saved (releasing.py).

What is written down is what everybody restores: processes may have looked at different moments. An
instance that was to get files becomes Active with exactly those files in it, or not at all.

A warm instance has run before its tenant's files came, so it is frozen, filled, and its process
killed; what counts then is the next process, which is another container. `filesystem.restore: live`
leaves the process as it is. A cold instance that was born to wait starts after its files are there.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import ConditionStatus
from boilerhouse.core.names import RESTORE_PREVIOUS
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.tenancy.claims.deciding.status import DATA_RESTORED, moved, stating
from boilerhouse.tenancy.claims.deciding.trying import failure_of, waiting
from boilerhouse.tenancy.claims.model import ClaimStatus, SnapshotRefs, Source
from boilerhouse.tenancy.claims.seen import (
    ClaimSeen,
    LookUpPrevious,
    LookUpSnapshot,
    Mode,
    Plan,
    Restore,
    RunHook,
    Seen,
)
from boilerhouse.tenancy.instances.seen import InstanceSeen
from boilerhouse.tenancy.workloads.model import OnFailure
from boilerhouse.tenancy.workloads.model import Restore as RestoreBy

POST_RESTORE = "postRestore"


def must_look(seen: Seen, claim: ClaimSeen, keeps_files: bool) -> tuple[LookUpSnapshot, ...]:
    """Return the look-up if its result is not known yet, and needed or easy to have."""
    known = claim.status.snapshot is not None or seen.stored is not None
    if known or not keeps_files or (seen.unanswered and not claim.resume):
        return ()
    return (LookUpSnapshot(must=claim.resume),)


def wanted(claim: ClaimSeen, stored: str | None) -> str:
    """Return the digest of what the instance must hold; empty if it starts clean.

    `stored` is the current version of the tenant's files.
    """
    refs = claim.status.snapshot
    if refs is not None:
        return refs.restored
    return stored if stored and claim.resume else ""


def written_down(seen: Seen, claim: ClaimSeen) -> WriteStatus[ClaimStatus] | None:
    """Write what will be restored, before anything is; None if it is written, or there is none."""
    if claim.status.snapshot is not None or not wanted(claim, seen.stored):
        return None
    assert seen.stored is not None, "what is wanted was looked up"
    return _refs(claim, SnapshotRefs(base=seen.stored, restored=seen.stored), "SnapshotFound")


def mode_for(seen: Seen, pod: InstanceSeen) -> Mode:
    """Say how files come into this Pod: what it was born as counts, not what was intended."""
    if pod.awaits:
        return "cold"
    spec = None if seen.workload is None else seen.workload.spec
    live = spec is not None and spec.filesystem.restore == RestoreBy.LIVE
    return "live" if live else "restart"


def misfit(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> bool:
    """Whether a Pod cannot, or can no longer, become what the claim wants."""
    digest = wanted(claim, seen.stored)
    if not digest:
        return bool(pod.awaits)  # it would wait for ever
    if pod.restored is not None:
        return pod.restored.digest != digest
    # One that has crashed before: the next time its node would let it wait, and nobody could tell
    # that restart from the one that the restore asks for.
    return pod.crashed and mode_for(seen, pod) == "restart"


def bring_back(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Plan | None:
    """Return what is left to do about the files of a bound Pod; None once they are in it."""
    digest = wanted(claim, seen.stored)
    if not digest:
        return None
    plan = written_down(seen, claim)
    if plan is not None:
        return plan
    if pod.restored is not None:
        if pod.restored.container and pod.restored.container == pod.container:
            return Wait("the instance starts again with the tenant's files")
        return None
    if Restore.__name__ in seen.busy:
        failed = failure_of(seen, Restore)
        return Wait("the tenant's files are being restored" if failed is None else waiting(failed))
    if not (pod.ip and pod.agent_runs):
        return None  # it is starting, which is told elsewhere
    if seen.corrupt == digest and claim.restore_previous:
        return _fall_back(seen, claim, digest)
    return Do((Restore(pod, digest, mode_for(seen, pod)),))


def _fall_back(seen: Seen, claim: ClaimSeen, digest: str) -> Plan:
    if not seen.previous:
        return Do((LookUpPrevious(digest),))
    refs = claim.status.snapshot
    assert refs is not None, "a version is found bad by restoring it"
    # What it may replace stays: the bad one. The tenant has chosen to go on from an older one.
    return _refs(claim, structs.replace(refs, restored=seen.previous), "RestorePrevious")


def hook(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> RunHook | None:
    """Return the command to run in an instance whose files are back; None if there is none left."""
    spec = None if seen.workload is None else seen.workload.spec
    given = None if spec is None or spec.hooks is None else spec.hooks.post_restore
    digest = wanted(claim, seen.stored)
    if given is None or not digest or seen.hooked:
        return None
    return RunHook(
        pod,
        POST_RESTORE,
        given.command,
        timedelta(seconds=given.timeout_seconds),
        given.on_failure == OnFailure.FAIL,
        digest,
    )


def source_of(seen: Seen, claim: ClaimSeen, pod: InstanceSeen) -> Source:
    """Say how the tenant came by its instance (S1)."""
    data = bool(wanted(claim, seen.stored))
    if pod.source == "pool":
        return Source.POOL_DATA if data else Source.POOL
    return Source.COLD_DATA if data else Source.COLD


def with_files(seen: Seen, claim: ClaimSeen, status: ClaimStatus) -> ClaimStatus:
    """Return the status of a claim that becomes Active, with what its files are."""
    if status.snapshot is None and seen.stored is not None and not claim.resume:
        # It starts clean, and what is stored, or nothing, is what it may replace. Not written: not
        # known.
        status = structs.replace(status, snapshot=SnapshotRefs(base=seen.stored))
    digest = wanted(claim, seen.stored)
    if not digest:
        return status
    reason, message = "Restored", f"version {digest}"
    if seen.skipped:
        reason = "RestoredInPart"
        message += f", without what has no overlay directory: {', '.join(seen.skipped)}"
    return stating(seen, status, DATA_RESTORED, ConditionStatus.TRUE, reason, message[:1024])


def corrupt_message(digest: str, why: str) -> str:
    """Tell a user what to do about a version whose bytes are not what was stored."""
    return f"version {digest} of the tenant's files is damaged ({why}): {_WAYS_OUT}"


def unfit_message(digest: str, why: str) -> str:
    """Tell a user what to do about a version that no instance takes."""
    return f"version {digest} of the tenant's files cannot be restored ({why}): {_WAYS_OUT}"


_WAYS_OUT = (
    f"annotate the claim with {RESTORE_PREVIOUS}=true to have the one before it, or release the"
    " claim, restore another version and claim again"
)


def _refs(claim: ClaimSeen, refs: SnapshotRefs, reason: str) -> WriteStatus[ClaimStatus]:
    status = moved(claim, claim.status.phase, claim.status.detail)
    return WriteStatus(structs.replace(status, snapshot=refs), reason)
