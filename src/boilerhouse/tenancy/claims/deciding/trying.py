"""Steps that fail: when they are tried again, and when the claim says so. Pure.

steps + the failure of the last try ─► Do now | Wait until its time | Error
"""

from __future__ import annotations

from datetime import timedelta

from boilerhouse.core.plan import Do, Wait
from boilerhouse.core.stepfailure import StepFailure
from boilerhouse.tenancy.claims.deciding.status import failed, write_if_changed
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


def run_or_fail(seen: Seen, claim: ClaimSeen, *steps: Step) -> Plan:
    """Try steps; say so in the status when they are refused or have failed too often."""
    failure = failure_of(seen, *steps)
    in_error = claim.status.phase == ClaimPhase.ERROR
    if failure is not None and (failure.refused or failure.count >= ATTEMPTS):
        common = "Refused" if failure.refused else "StepFails"
        plan = failed(seen, claim, REASONS.get(failure.step, common), failure.why)
        if plan is not None:
            return plan
    elif failure is not None and failure.step in _WAITING and not in_error:
        # Long before it is an Error: somebody may wait.
        plan = write_if_changed(claim, claim.status.phase, REASONS[failure.step], waiting(failure))
        if plan is not None:
            return plan
    return with_backoff(seen, *steps)


def waiting(failure: StepFailure) -> str:
    """Say what a claim waits for whose step has failed."""
    why = failure.why.removeprefix(f"{failure.step}: ")
    return f"{_WAITING[failure.step]}: {why}"


def with_backoff(seen: Seen, *steps: Step) -> Do[Step] | Wait:
    """Try steps, unless one of them has just failed: then when its time has come."""
    failure = failure_of(seen, *steps)
    if failure is not None and failure.due_in > NOW:
        return Wait(failure.why, failure.due_in)
    return Do(steps)


def failure_of(seen: Seen, *steps: Step | type[Step]) -> StepFailure | None:
    """Return how one of these steps, or kinds of steps, failed the last time."""
    failure = seen.failure
    if failure is None:
        return None
    kinds = (step if isinstance(step, type) else type(step) for step in steps)
    return failure if any(kind.__name__ == failure.step for kind in kinds) else None
