"""Steps that fail: when they are tried again, and when the claim says so. Pure.

steps + the setback of the last try ─► Do now | Wait until its time | Error
"""

from __future__ import annotations

from datetime import timedelta

from boilerhouse.core.plan import Do, Wait
from boilerhouse.core.setback import Setback
from boilerhouse.tenancy.claims.deciding.status import failed, said
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.seen import ClaimSeen, Plan, Seen, Step

ATTEMPTS = 10  # of one step in a row, before the claim is in Error
NOW = timedelta(0)

# The word for a step that keeps failing, where there is a better one than "StepFails".
REASONS = {
    "LookUpSnapshot": "SnapshotsUnavailable",
    "LookUpPrevious": "SnapshotsUnavailable",
    "Restore": "RestoreFails",
    "RunHook": "HookFails",
}
# What whoever waits is told. Not of steps that only the API server can fail: to write would, too.
_WAITING = {
    "LookUpSnapshot": "waiting for the snapshot helper, which must say whether files are stored",
    "LookUpPrevious": "waiting for the snapshot helper, which must say which version came before",
    "Restore": "the tenant's files are not restored yet, and it is tried again",
    "RunHook": "a hook failed, and is run again",
}


def attempt(seen: Seen, claim: ClaimSeen, *steps: Step) -> Plan:
    """Try steps; say so in the status when they are refused or have failed too often."""
    setback = setback_of(seen, *steps)
    in_error = claim.status.phase == ClaimPhase.ERROR
    if setback is not None and (setback.refused or setback.count >= ATTEMPTS):
        common = "Refused" if setback.refused else "StepFails"
        plan = failed(seen, claim, REASONS.get(setback.step, common), setback.why)
        if plan is not None:
            return plan
    elif setback is not None and setback.step in _WAITING and not in_error:
        # Long before it is an Error: somebody may wait.
        plan = said(claim, claim.status.phase, REASONS[setback.step], waiting(setback))
        if plan is not None:
            return plan
    return patiently(seen, *steps)


def waiting(setback: Setback) -> str:
    """Say what a claim waits for whose step has failed."""
    why = setback.why.removeprefix(f"{setback.step}: ")
    return f"{_WAITING[setback.step]}: {why}"


def patiently(seen: Seen, *steps: Step) -> Do[Step] | Wait:
    """Try steps, unless one of them has just failed: then when its time has come."""
    setback = setback_of(seen, *steps)
    if setback is not None and setback.due_in > NOW:
        return Wait(setback.why, setback.due_in)
    return Do(steps)


def setback_of(seen: Seen, *steps: Step | type[Step]) -> Setback | None:
    """Return how one of these steps, or kinds of steps, failed the last time."""
    setback = seen.setback
    if setback is None:
        return None
    kinds = (step if isinstance(step, type) else type(step) for step in steps)
    return setback if any(kind.__name__ == setback.step for kind in kinds) else None
