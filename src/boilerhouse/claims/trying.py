"""Steps that fail: when they are tried again, and when the claim says so. Pure.

steps + the setback of the last try ─► Do now | Wait until its time | Error
"""

from __future__ import annotations

from datetime import timedelta

from boilerhouse.claims.seen import ClaimSeen, Do, Plan, Seen, Step, Wait
from boilerhouse.claims.status import failed
from boilerhouse.core.setback import Setback

ATTEMPTS = 10  # of one step in a row, before the claim is in Error
NOW = timedelta(0)

# The word for a step that keeps failing, where there is a better one than "StepFails".
_REASONS = {
    "LookUpSnapshot": "SnapshotsUnavailable",
    "LookUpPrevious": "SnapshotsUnavailable",
    "Restore": "RestoreFails",
    "RunHook": "HookFails",
}


def attempt(seen: Seen, claim: ClaimSeen, *steps: Step) -> Plan:
    """Try steps; say so in the status when they are refused or have failed too often."""
    setback = setback_of(seen, *steps)
    if setback is not None and (setback.refused or setback.count >= ATTEMPTS):
        common = "Refused" if setback.refused else "StepFails"
        plan = failed(seen, claim, _REASONS.get(setback.step, common), setback.why)
        if plan is not None:
            return plan
    return patiently(seen, *steps)


def patiently(seen: Seen, *steps: Step) -> Do | Wait:
    """Try steps, unless one of them has just failed: then when its time has come."""
    setback = setback_of(seen, *steps)
    if setback is not None and setback.due_in > NOW:
        return Wait(setback.why, setback.due_in)
    return Do(steps)


def setback_of(seen: Seen, *steps: Step) -> Setback | None:
    """Return how one of these steps failed the last time."""
    setback = seen.setback
    if setback is None or setback.step not in {type(step).__name__ for step in steps}:
        return None
    return setback
