"""What is decided about a workload, branch by branch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.names import FINALIZER
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.tenancy.workloads.decide import decide
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.seen import Plan, Seen, WorkloadSeen

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
P = WorkloadPhase


def seen(phase: WorkloadPhase = P.CREATING, **changes: Any) -> Seen:
    """A held workload whose status is of its spec, unless told otherwise."""
    status = msgspec.structs.replace(
        changes.pop("status", WorkloadStatus(observed_generation=2)), phase=phase
    )
    of = {key: changes.pop(key) for key in ("finalizers", "deleting") if key in changes}
    workload = WorkloadSeen("web", "w-1", "5", 2, status, finalizers=(FINALIZER,))
    return Seen(now=NOW, workload=replace(workload, **of), **changes)


def written(plan: Plan) -> WorkloadStatus:
    assert isinstance(plan, WriteStatus), plan
    return plan.status


def test_it_is_held_first() -> None:
    """A workload must not go while claims need it."""
    assert decide(seen(finalizers=())) == Do((AddFinalizer(),))


def test_a_sound_spec_with_all_it_needs_is_ready() -> None:
    """And Ready is of this generation."""
    status = written(decide(seen(status=WorkloadStatus())))
    assert (status.phase, status.observed_generation, status.detail) == (P.READY, 2, "")
    assert isinstance(decide(seen(P.READY, status=status)), Wait)


def test_an_error_lists_every_reason() -> None:
    """Faults of the spec and what is missing, in one detail."""
    wrong: dict[str, Any] = {"faults": ("a is wrong", "b is wrong"), "missing": ("no image",)}
    status = written(decide(seen(**wrong)))
    assert status.phase == P.ERROR
    assert status.detail == "a is wrong; b is wrong; no image"
    again = decide(
        seen(P.ERROR, status=status, faults=("a is wrong", "b is wrong"), missing=("no image",))
    )
    assert again == Wait(status.detail, timedelta(seconds=1))  # the image may come
    status = written(decide(seen(faults=("a is wrong",))))
    assert decide(seen(P.ERROR, status=status, faults=("a is wrong",))) == Wait(status.detail)


def test_what_is_missing_outside_is_looked_for_again() -> None:
    """More and more seldom: after a quarter of the time it has been missing."""
    status = written(decide(seen(missing=("no image",))))
    waits = []
    for age in (0, 1, 60, 100_000):
        later = replace(
            seen(P.ERROR, status=status, missing=("no image",)), now=NOW + timedelta(seconds=age)
        )
        plan = decide(later)
        assert isinstance(plan, Wait)
        assert plan.again_in is not None
        waits.append(plan.again_in.total_seconds())
    assert waits == [1, 1, 15, 60]
    without = decide(
        seen(P.ERROR, status=WorkloadStatus(detail="x", observed_generation=2), missing=("x",))
    )
    assert written(without).detail == "x"


def test_other_reasons_are_told_in_error() -> None:
    """The detail keeps up; the phase stays."""
    status = written(decide(seen(missing=("no image", "no Secret"))))
    after = written(decide(seen(P.ERROR, status=status, missing=("no Secret",))))
    assert (after.phase, after.detail) == (P.ERROR, "no Secret")


def test_an_error_whose_reasons_are_gone_leads_through_creating() -> None:
    """The table knows no way from Error to Ready."""
    status = written(decide(seen(missing=("no image",))))
    assert written(decide(seen(P.ERROR, status=status))).phase == P.CREATING


@pytest.mark.parametrize("phase", [P.READY, P.ERROR])
def test_a_changed_spec_goes_through_creating(phase: WorkloadPhase) -> None:
    """Of a new generation nothing is known yet."""
    status = written(
        decide(seen(phase, status=WorkloadStatus(observed_generation=1), faults=("x",)))
    )
    assert (status.phase, status.observed_generation) == (P.CREATING, 2)


def test_what_goes_missing_later_is_a_condition() -> None:
    """No way from Ready to Error: it harms new instances only. It is told, and taken back."""
    status = written(decide(seen(P.READY, missing=("no Secret",))))
    degraded = find(status.conditions, "Degraded")
    assert status.phase == P.READY
    assert degraded is not None
    assert (degraded.status, degraded.message) == (ConditionStatus.TRUE, "no Secret")
    again = decide(seen(P.READY, status=status, missing=("no Secret",)))
    assert again == Wait("no Secret", timedelta(minutes=1))
    found = find(written(decide(seen(P.READY, status=status))).conditions, "Degraded")
    assert found is not None
    assert found.status == ConditionStatus.FALSE


def test_deletion_is_blocked_visibly_while_claims_need_it() -> None:
    """The condition names them, some of them if there are many."""
    plan = decide(seen(P.READY, deleting=True, claims=tuple(f"c{n}" for n in range(7))))
    status = written(plan)
    blocked = find(status.conditions, "DeletionBlocked")
    assert blocked is not None
    assert "c0, c1, c2, c3, c4 and 2 more" in blocked.message
    few = written(decide(seen(P.READY, deleting=True, claims=("c0",))))
    assert "c0; release" in few.conditions[0].message
    assert isinstance(decide(seen(P.READY, status=few, deleting=True, claims=("c0",))), Wait)


def test_without_claims_it_is_let_go() -> None:
    """Whatever its phase."""
    for phase in P:
        assert decide(seen(phase, deleting=True)) == Do((RemoveFinalizer(),))
    assert isinstance(decide(seen(deleting=True, finalizers=("another",))), Wait)


def test_limits_that_are_not_enforced_are_a_condition() -> None:
    """The workload is Ready all the same; once they are enforced it says so, and not before."""
    status = written(decide(seen(status=WorkloadStatus(), unenforced="no cgroup")))
    assert status.phase == P.READY
    enforced = find(status.conditions, "LimitsEnforced")
    assert enforced is not None
    assert (enforced.status, enforced.reason) == (ConditionStatus.FALSE, "NotEnforced")
    assert "no cgroup" in enforced.message
    assert isinstance(decide(seen(P.READY, status=status, unenforced="no cgroup")), Wait)
    again = find(written(decide(seen(P.READY, status=status))).conditions, "LimitsEnforced")
    assert again is not None
    assert again.status == ConditionStatus.TRUE
    fine = written(decide(seen(status=WorkloadStatus())))
    assert find(fine.conditions, "LimitsEnforced") is None
