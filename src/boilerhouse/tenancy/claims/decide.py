"""What to do next about a claim. Pure and total: Seen ─► Plan.

strays? ─► delete them
  phase ─► Pending, Error   obtaining.py   get the one Pod of the intent, or say why not
           Active           keeping.py     is it still there? in use? does it know whose it is?
           Releasing        releasing.py   save it, remove it
           Released         releasing.py   finalizer, and the object if it is time
           ReleaseFailed    releasing.py   try again, or give it back
"""

from __future__ import annotations

from collections.abc import Callable

from boilerhouse.core.plan import Wait
from boilerhouse.tenancy.claims.deciding.keeping import keep
from boilerhouse.tenancy.claims.deciding.obtaining import obtain
from boilerhouse.tenancy.claims.deciding.releasing import let_go, release, stay
from boilerhouse.tenancy.claims.deciding.status import (
    IDENTITY_DELIVERED,
    INSTANCE_READY,
    error_reason,
)
from boilerhouse.tenancy.claims.deciding.trying import ATTEMPTS, with_backoff
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.seen import ClaimSeen, DeletePod, Plan, Seen

__all__ = ["ATTEMPTS", "IDENTITY_DELIVERED", "INSTANCE_READY", "decide", "error_reason"]

_BY_PHASE: dict[ClaimPhase, Callable[[Seen, ClaimSeen], Plan]] = {
    ClaimPhase.PENDING: obtain,
    ClaimPhase.ERROR: obtain,
    ClaimPhase.ACTIVE: keep,
    ClaimPhase.RELEASING: release,
    ClaimPhase.RELEASED: let_go,
    ClaimPhase.RELEASE_FAILED: stay,
}


def decide(seen: Seen) -> Plan:
    """Return the next step, write or wait for one claim."""
    claim = seen.claim
    if seen.strays:
        why = "it belongs to a claim that names another instance, or to none any more"
        return with_backoff(seen, *(DeletePod(stray, why) for stray in seen.strays))
    if claim is None:
        return Wait("the claim is gone")
    return _BY_PHASE[claim.status.phase](seen, claim)
