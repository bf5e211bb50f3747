"""How a claim's status is made: phases, details and conditions. Pure.

claim as seen + what was decided ─► WriteStatus, or None where the status says so already
"""

from __future__ import annotations

from msgspec import structs

from boilerhouse.core.condition import Condition, ConditionStatus, find, with_condition
from boilerhouse.core.plan import WriteStatus
from boilerhouse.node.agent.disk.limit import Shortage
from boilerhouse.tenancy.claims.deciding.epochs import opened
from boilerhouse.tenancy.claims.machine import CLAIM, ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus
from boilerhouse.tenancy.claims.seen import ClaimSeen, Seen, UsageSeen
from boilerhouse.tenancy.instances.seen import InstanceSeen

SAID = 1024  # characters of a detail that a condition repeats

INSTANCE_READY = "InstanceReady"
IDENTITY_DELIVERED = "IdentityDelivered"
DATA_RESTORED = "DataRestored"
SNAPSHOT_CONFLICT = "SnapshotConflict"
SAVED_IN_PART = "SavedInPart"
DISK_FULL = "DiskFull"
ENOUGH_ROOM = "EnoughRoom"
OVER_LIMIT = "OverLimit"  # a reason of DISK_FULL, which is False: it is above its limit, and runs
# The reasons of DISK_FULL if it is not the bytes of its own disk.
_TOO_MANY_FILES = "TooManyFiles"
_MACHINE_DISK_FULL = "MachineDiskFull"
_QUOTA_REACHED = "QuotaReached"  # it runs on, and its writes fail
_REASONS = {
    Shortage.INODES: _TOO_MANY_FILES,
    Shortage.MACHINE: _MACHINE_DISK_FULL,
    Shortage.QUOTA: _QUOTA_REACHED,
}
# What a frozen program has open stays on the disk when it is removed: it cannot let go of it.
_OPEN_FILES = "what its program has open has to be emptied, as by `: > FILE`"
_UNLINKED = "; what was removed while open, as by `: > /proc/PID/fd/N`"

CRASH_LOOP = "CrashLoopBackOff"  # a reason of InstanceReady: waiting will not help


def moved(claim: ClaimSeen, phase: ClaimPhase, detail: str) -> ClaimStatus:
    """Return the status in another phase, or the same: the only way to write one."""
    return structs.replace(
        claim.status,
        phase=CLAIM.move(claim.status.phase, phase),
        detail=detail,
        observed_generation=claim.generation,
    )


def transition(
    claim: ClaimSeen, phase: ClaimPhase, reason: str, detail: str
) -> WriteStatus[ClaimStatus]:
    return WriteStatus(moved(claim, phase, detail), reason)


def begin_release(
    claim: ClaimSeen, reason: str, detail: str, *, drop: bool = False
) -> WriteStatus[ClaimStatus]:
    """Begin a round of release, `detail` says why; `drop`: without saving."""
    status = moved(claim, ClaimPhase.RELEASING, detail)
    release = opened(claim.status, claim.again, detail, drop=drop)
    return WriteStatus(structs.replace(status, release=release), reason)


def write_if_changed(
    claim: ClaimSeen, phase: ClaimPhase, reason: str, detail: str
) -> WriteStatus[ClaimStatus] | None:
    """Write the phase with its detail; None if the status says so already."""
    plan = transition(claim, phase, reason, detail)
    return None if plan.status == claim.status else plan


def failed(
    seen: Seen, claim: ClaimSeen, reason: str, detail: str
) -> WriteStatus[ClaimStatus] | None:
    """Write Error, with the reason where whoever asks later finds it; None if it is there."""
    return _without(seen, claim, ClaimPhase.ERROR, reason, detail)


def recovered(seen: Seen, claim: ClaimSeen, detail: str) -> WriteStatus[ClaimStatus]:
    """Leave Error, which is always a change."""
    plan = _without(seen, claim, ClaimPhase.PENDING, "Recovered", detail)
    assert plan is not None, "another phase is another status"
    return plan


def _without(
    seen: Seen, claim: ClaimSeen, phase: ClaimPhase, reason: str, detail: str
) -> WriteStatus[ClaimStatus] | None:
    """Write a phase in which there is no instance to be used, and why there is none."""
    stated = (ConditionStatus.FALSE, reason, detail[:SAID])
    status = stating(seen, moved(claim, phase, detail), INSTANCE_READY, *stated)
    return None if status == claim.status else WriteStatus(status, reason)


def stating(
    seen: Seen,
    status: ClaimStatus,
    condition: str,
    is_so: ConditionStatus,
    reason: str,
    message: str = "",
) -> ClaimStatus:
    """Return the status with a condition stated."""
    conditions = with_condition(
        status.conditions,
        condition,
        is_so,
        reason,
        message,
        generation=status.observed_generation,
        now=seen.now,
    )
    return structs.replace(status, conditions=conditions)


def unusable(pod: InstanceSeen) -> str:
    """Say why an instance that is there cannot be used; nothing if there is nothing known."""
    if pod.backing_off:
        return f"{pod.trouble}; see `boilerhouse logs {pod.name} --previous`"
    if pod.unready and not pod.image_failure:
        return f"the instance runs but is not ready: {pod.unready}"
    return pod.image_failure or pod.trouble


def with_instance(seen: Seen, status: ClaimStatus, pod: InstanceSeen) -> ClaimStatus:
    """Return the status with what is to be said of an instance that is there."""
    why = "" if pod.usable else unusable(pod) or "the instance is not ready"
    ready = (
        (ConditionStatus.TRUE, "Ready", "")
        if pod.usable
        else (ConditionStatus.FALSE, CRASH_LOOP if pod.backing_off else "NotReady", why[:SAID])
    )
    status = structs.replace(status, detail=why)
    # The files lie in memory: a machine that was down has lost them, and its agents begin anew.
    life = f"after {pod.agent_restarts} restarts of the agent" if pod.agent_restarts else ""
    before = find(status.conditions, IDENTITY_DELIVERED)
    done = before is not None and (before.status, before.message) == (ConditionStatus.TRUE, life)
    told = (
        (ConditionStatus.TRUE, "Delivered", life)
        if done or seen.delivered
        else (ConditionStatus.UNKNOWN, "Delivering", "the instance does not know yet whose it is")
    )
    status = stating(seen, status, INSTANCE_READY, *ready)
    return stating(seen, status, IDENTITY_DELIVERED, *told)


def with_disk(seen: Seen, status: ClaimStatus) -> ClaimStatus:
    """Return the status with what is to be said of the instance's disk.

    Until its agent was asked here, what the status says of it holds.
    """
    before, usage = find(status.conditions, DISK_FULL), seen.usage
    trouble = before is not None and (
        before.status == ConditionStatus.TRUE or before.reason == OVER_LIMIT
    )
    if usage is not None and usage.full:
        reason = _REASONS.get(Shortage(usage.full), DISK_FULL)
        return _used_up(seen, status, reason, _full(seen, usage))
    if usage is not None and usage.over:
        words = (
            f"it uses more than {_disk(seen)}: it is frozen in a moment, with all its files,"
            " unless some are removed"
        )
        return _over(seen, status, words)
    if before is None or not trouble:
        return status
    if usage is not None and usage.full is not None:
        words = "it has room on its disk again, and runs"
        return stating(seen, status, DISK_FULL, ConditionStatus.FALSE, ENOUGH_ROOM, words)
    if before.reason == OVER_LIMIT:
        return _over(seen, status, before.message)
    return _used_up(seen, status, before.reason, before.message)


def _used_up(seen: Seen, status: ClaimStatus, reason: str, words: str) -> ClaimStatus:
    """Return the status of an instance whose disk is full: frozen, unless a quota stops it."""
    status = structs.replace(status, detail=words)
    if reason != _QUOTA_REACHED:
        status = stating(seen, status, INSTANCE_READY, ConditionStatus.FALSE, DISK_FULL, words)
    return stating(seen, status, DISK_FULL, ConditionStatus.TRUE, reason, words)


def _over(seen: Seen, status: ClaimStatus, words: str) -> ClaimStatus:
    """Return the status of an instance that runs above its limit, as it may when it starts."""
    status = structs.replace(status, detail=status.detail or words)
    return stating(seen, status, DISK_FULL, ConditionStatus.FALSE, OVER_LIMIT, words)


def _disk(seen: Seen) -> str:
    spec = None if seen.workload is None else seen.workload.spec
    return "its disk" if spec is None else f"its disk of {spec.resources.disk_gb} GiB"


def _full(seen: Seen, usage: UsageSeen) -> str:
    """Say what of its disk an instance has used up, and the ways out."""
    open_files = _OPEN_FILES + (_UNLINKED if usage.unlinked else "")
    if usage.full == Shortage.MACHINE:
        return (
            "the disk of the machine is nearly full and it wrote on: the instance is frozen, with"
            " all its files. It runs on when there is room again: remove files with"
            f" `boilerhouse exec` ({open_files}), or release it or others (everything is saved),"
            " or make room on the machine"
        )
    disk = _disk(seen)
    if usage.full == Shortage.QUOTA:
        return (
            f"the quota of {disk} is used up, of bytes or of files: the instance runs, and what it"
            " writes on top is refused. Remove files (below 95 % this is not said any more), or"
            " release it (everything is saved), or give its workload a larger diskGb"
        )
    what = f"{disk} is full"
    if usage.full == Shortage.INODES:
        what = f"it has as many files and directories as {disk} may hold"
    return (
        f"{what}: the instance is frozen, with all its files. Remove some with `boilerhouse exec`"
        f" (below 95 % it runs on; {open_files}), or release it (everything is saved), or give"
        " its workload a larger diskGb"
    )


def is_true(conditions: tuple[Condition, ...], name: str) -> bool:
    found = find(conditions, name)
    return found is not None and found.status == ConditionStatus.TRUE


def is_frozen(conditions: tuple[Condition, ...]) -> bool:
    """Whether an instance is frozen because its disk is full."""
    found = find(conditions, DISK_FULL)
    if found is None or found.status != ConditionStatus.TRUE:
        return False
    return found.reason != _QUOTA_REACHED


def error_reason(status: ClaimStatus) -> str:
    """Return the word for why a claim is in Error, for programs."""
    ready = find(status.conditions, INSTANCE_READY)
    return "ClaimError" if ready is None else ready.reason


def release_reason(claim: ClaimSeen) -> str:
    """Say who wanted the claim to go."""
    done = "deleted" if claim.deleting else "released"
    return f"{done} before it became Active" if claim.status.claimed_at is None else done
