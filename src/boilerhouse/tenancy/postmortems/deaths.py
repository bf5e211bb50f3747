"""What counts as a death. Pure: Pod and Claim ─► Death, or None.

The tenant's program ended by itself, the Pod ended, or somebody takes the Pod away, with grace,
while its claim wants to keep it. What happened before the claim had the instance is not the
tenant's; and a program that was cut off with its node, or with us, has not died of anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339
from boilerhouse.platform.kube.kinds import ContainerStatus, Pod, Terminated
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.instances.build import TENANT_CONTAINER
from boilerhouse.tenancy.instances.seen import RestoredSeen

# Kubelet's words for a program whose end nobody saw.
_CUT_OFF = frozenset({"Unknown", "ContainerStatusUnknown"})


@dataclass(frozen=True, slots=True)
class Death:
    """One death. `number` tells it from every other; `began`: when the life did that ended."""

    number: str
    at: datetime | None  # None: nobody said, so it is now
    reason: str
    message: str = ""
    exit_code: int | None = None
    began: datetime | None = None


def may_have_died(pod: Pod) -> bool:
    """Whether a Pod is worth a second look; cheap, as it is asked of each change of each Pod."""
    if names.CLAIM not in pod.metadata.annotations:
        return False
    tenant = _tenant(pod)
    restarted = tenant is not None and (tenant.restart_count > 0 or _ended(tenant) is not None)
    ended = pod.status.phase in ("Failed", "Succeeded")
    return restarted or ended or pod.metadata.deletion_timestamp is not None


def death_of(pod: Pod, claim: Claim | None) -> Death | None:
    """Return how a claimed instance died, if it did."""
    if claim is None or claim.status is None or claim.status.phase != ClaimPhase.ACTIVE:
        return None
    uid, status = pod.metadata.uid, pod.status
    tenant = _tenant(pod)
    last = None if tenant is None else _ended(tenant)
    code = None if last is None else last.exit_code
    if status.phase in ("Failed", "Succeeded"):
        at = None if last is None else last.finished_at
        return Death(f"{uid}/ended", at, status.reason or status.phase, status.message, code)
    if pod.metadata.deletion_timestamp is not None:
        # Without grace it was destroyed, and there is nothing left to ask.
        forced = not pod.metadata.deletion_grace_period_seconds
        if forced or claim.metadata.deletion_timestamp is not None or _is_released(claim):
            return None
        return Death(f"{uid}/deleted", None, "Deleted", "somebody deleted the Pod", None)
    if tenant is None or last is None or last.reason in _CUT_OFF or last.finished_at is None:
        return None
    restored = RestoredSeen.parse(pod.metadata.annotations.get(names.RESTORED, ""))
    if restored is not None and last.container_id == restored.container != "":
        return None  # it was ended to be given its tenant's files
    since = claim.status.claimed_at
    if since is not None and last.finished_at <= since:
        return None
    return Death(
        f"{uid}/{rfc3339(last.finished_at)}",
        last.finished_at,
        last.reason or "Ended",
        last.message,
        code,
        began=last.started_at,
    )


def _tenant(pod: Pod) -> ContainerStatus | None:
    found = pod.status.container_statuses
    return next((one for one in found if one.name == TENANT_CONTAINER), None)


def _ended(tenant: ContainerStatus) -> Terminated | None:
    return tenant.state.terminated or tenant.last_state.terminated


def _is_released(claim: Claim) -> bool:
    return names.RELEASE in claim.metadata.annotations
