"""What is decided about a pool, branch by branch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from boilerhouse.core.names import FINALIZER
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.core.stepfailure import StepFailure
from boilerhouse.tenancy.instances.seen import Blueprint, InstanceSeen
from boilerhouse.tenancy.pools.decide import (
    IMAGE_PATIENCE,
    LOOK_AGAIN,
    LOOK_SOON,
    MOST_STEPS,
    STUCK_AFTER,
    decide,
    scheduler_reason,
)
from boilerhouse.tenancy.pools.machine import PoolPhase
from boilerhouse.tenancy.pools.model import PoolStatus
from boilerhouse.tenancy.pools.seen import CreatePod, DeletePod, LabelPod, PoolSeen, Seen
from boilerhouse.tenancy.workloads.machine import WorkloadPhase

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
READY = Blueprint("web", WorkloadPhase.READY, template="t1")


def pool(phase: PoolPhase = PoolPhase.DEGRADED, **changes: Any) -> PoolSeen:
    status = msgspec.structs.replace(changes.pop("status", PoolStatus()), phase=phase)
    base = PoolSeen(
        name="warm",
        uid="pool-1",
        version="3",
        generation=1,
        workload="web",
        size=2,
        max_fill=2,
        status=status,
        finalizers=(FINALIZER,),
    )
    return replace(base, **changes)


def pod(number: int = 1, **changes: Any) -> InstanceSeen:
    """A ready warm Pod, labelled so."""
    base = InstanceSeen(
        name=f"p{number}",
        uid=f"uid-{number}",
        version="1",
        workload="web",
        template="t1",
        created_at=NOW - timedelta(minutes=number),
        pool="warm",
        pool_status="ready",
        ip="10.0.0.1",
        running=True,
        ready=True,
    )
    return replace(base, **changes)


def starting(number: int = 1, **changes: Any) -> InstanceSeen:
    fresh = {"ready": False, "pool_status": "warming", "waited": timedelta(seconds=5)}
    return pod(number, **{**fresh, **changes})


def seen(of: PoolSeen | None, *pods: InstanceSeen, **changes: Any) -> Seen:
    return replace(Seen(now=NOW, pool=of, workload=READY, pods=pods, random_bits=4), **changes)


def steps(plan: object, kind: type) -> list[Any]:
    assert isinstance(plan, Do), plan
    return [step for step in plan.steps if isinstance(step, kind)]


def settled(*pods: InstanceSeen, **changes: Any) -> PoolSeen:
    """The pool after its status was written for these Pods."""
    plan = decide(seen(pool(**changes), *pods))
    assert isinstance(plan, WriteStatus), plan
    return pool(plan.status.phase, status=plan.status, **changes)


def failure(due: float = 5) -> StepFailure:
    return StepFailure("CreatePod", "quota", 1, True, timedelta(seconds=due))


def test_a_pool_is_held_before_it_makes_anything() -> None:
    """Without the finalizer its Pods could outlive it."""
    assert decide(seen(pool(finalizers=()))) == Do((AddFinalizer(),))


def test_an_empty_pool_is_filled_as_fast_as_it_may() -> None:
    """maxFillConcurrency bounds how many start at once; names differ."""
    made = steps(decide(seen(pool(size=5, max_fill=3))), CreatePod)
    assert len(made) == len({step.name for step in made}) == 3
    assert len(steps(decide(seen(pool(size=5, max_fill=3), starting())), CreatePod)) == 2
    other = steps(decide(seen(pool(size=5, max_fill=3), random_bits=5)), CreatePod)
    assert {step.name for step in made}.isdisjoint(step.name for step in other)


def test_nothing_is_made_while_enough_are_starting() -> None:
    """Then the counters are written."""
    plan = decide(seen(pool(size=5, max_fill=1), starting()))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.ready, plan.status.warming) == (0, 1)
    assert plan.status.phase == PoolPhase.DEGRADED


def test_a_taken_pod_is_replaced_at_once() -> None:
    """One of two was taken: one is made."""
    assert len(steps(decide(seen(pool(PoolPhase.HEALTHY), pod())), CreatePod)) == 1


def test_pods_are_labelled_as_what_they_are() -> None:
    """Ready ones as ready, and back again when they are not."""
    became = starting(1, ready=True)
    lost = pod(2, ready=False)
    plan = decide(seen(pool(), became, lost))
    assert steps(plan, LabelPod) == [LabelPod(became, "ready"), LabelPod(lost, "warming")]


def test_healthy_when_enough_are_ready() -> None:
    """S0: ready >= size; the selector is there for kubectl scale."""
    plan = decide(seen(pool(), pod(1), pod(2)))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.ready) == (PoolPhase.HEALTHY, 2)
    assert plan.status.selector == "boilerhouse.dev/managed=true,boilerhouse.dev/pool=warm"
    assert plan.status.observed_generation == 1
    assert decide(seen(settled(pod(1), pod(2)), pod(1), pod(2))) == Wait("pool satisfied")


def test_scaling_down_takes_unready_ones_first_then_the_oldest() -> None:
    """Nothing that is about to be useful is wasted on purpose."""
    pods = [pod(1), pod(2), pod(3), starting(4)]
    gone = steps(decide(seen(pool(size=2), *pods)), DeletePod)
    assert [step.pod.name for step in gone] == ["p4", "p3"]
    assert not any(step.failed for step in gone)


def test_a_changed_blueprint_rolls_the_pool() -> None:
    """Old Pods go at once, since no claim takes them, and new ones come."""
    plan = decide(seen(pool(), pod(1, template="t0"), pod(2)))
    assert [step.pod.name for step in steps(plan, DeletePod)] == ["p1"]
    assert len(steps(plan, CreatePod)) == 1


def test_old_pods_stay_while_a_new_spec_is_checked() -> None:
    """It may be taken back; meanwhile none can be claimed and none is made."""
    creating = Blueprint("web", WorkloadPhase.CREATING)
    plan = decide(seen(pool(PoolPhase.HEALTHY), pod(1), pod(2), workload=creating))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.ready) == (PoolPhase.DEGRADED, 0)
    assert plan.status.detail == "workload web is being prepared"


def test_pods_of_another_workload_go() -> None:
    """The pool now is for another one."""
    assert steps(decide(seen(pool(), pod(1, workload="old"), pod(2))), DeletePod)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (pod(1, ended="Failed: Evicted", ready=False), "Evicted"),
        (starting(1, waited=STUCK_AFTER, trouble="tenant: crash"), "crash"),
        (starting(1, waited=STUCK_AFTER), "not ready for 180 s"),
        (pod(1, ready=False, waited=STUCK_AFTER), "not ready"),
    ],
)
def test_failed_and_stuck_pods_are_removed_and_counted(bad: InstanceSeen, word: str) -> None:
    """Their replacement comes with the next pass, which knows of the failure."""
    plan = decide(seen(pool(), bad, pod(2)))
    (gone,) = steps(plan, DeletePod)
    assert gone.failed
    assert word in gone.why
    assert steps(plan, CreatePod) == []


def test_replacements_of_failed_pods_wait_for_their_time() -> None:
    """Back-off: the detail says why nothing is made."""
    failing = StepFailure("Fill", "warm instances fail: crash", 3, False, timedelta(seconds=9))
    plan = decide(seen(pool(), pod(1), failing=failing))
    assert isinstance(plan, WriteStatus)
    assert plan.status.detail == "warm instances fail: crash"
    told = pool(status=plan.status)
    assert decide(seen(told, pod(1), failing=failing)) == Wait(
        "warm instances fail: crash", timedelta(seconds=9)
    )
    due = replace(failing, due_in=timedelta(0))
    assert steps(decide(seen(told, pod(1), failing=due)), CreatePod)


def test_a_quota_that_refuses_is_told_and_tried_again() -> None:
    """The pool stays Degraded, with the server's words."""
    plan = decide(seen(pool(), refusal=failure()))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.detail) == (PoolPhase.DEGRADED, "quota")
    assert steps(decide(seen(pool(), refusal=failure(0))), CreatePod)


def test_an_image_that_does_not_arrive_is_an_error_after_a_while() -> None:
    """Before that it is only told; the Pods stay, since kubelet goes on trying."""
    young = starting(1, image_failure="ErrImagePull", waited=timedelta(seconds=10))
    plan = decide(seen(pool(size=1), young))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.detail) == (
        PoolPhase.DEGRADED,
        "1 of 1 waits: ErrImagePull",
    )
    waiting = decide(seen(pool(size=1, status=plan.status), young))
    assert isinstance(waiting, Wait)
    assert waiting.again_in == IMAGE_PATIENCE - timedelta(seconds=10)
    old = replace(young, waited=timedelta(hours=1))
    plan = decide(seen(pool(size=1), old))
    assert isinstance(plan, WriteStatus)
    assert plan.status.phase == PoolPhase.ERROR
    assert "ErrImagePull" in plan.status.detail
    assert decide(seen(pool(PoolPhase.ERROR, size=1, status=plan.status), old)) == Wait(
        plan.status.detail
    )


def test_an_error_that_went_away_leads_through_degraded() -> None:
    """The table knows no way from Error to Healthy."""
    plan = decide(seen(pool(PoolPhase.ERROR), pod(1), pod(2)))
    assert isinstance(plan, WriteStatus)
    assert plan.status.phase == PoolPhase.DEGRADED


@pytest.mark.parametrize(
    "workload", [None, Blueprint("web", WorkloadPhase.ERROR, "no image")], ids=["gone", "error"]
)
def test_a_pool_without_a_usable_workload_is_in_error(workload: Blueprint | None) -> None:
    """It makes nothing, and drops its Pods only if the workload is gone."""
    plan = decide(seen(pool(), pod(1), workload=workload))
    if workload is None:
        assert steps(plan, DeletePod)
        plan = decide(seen(pool(), workload=None))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.ready) == (PoolPhase.ERROR, 0)
    assert "web" in plan.status.detail


@pytest.mark.parametrize(
    ("workload", "word"),
    [
        (Blueprint("web", WorkloadPhase.CREATING), "prepared"),
        (replace(READY, deleting=True), "deleted"),
        (Blueprint("web", WorkloadPhase.CREATING, deleting=True), "deleted"),
    ],
)
def test_a_pool_says_what_its_workload_goes_through(workload: Blueprint, word: str) -> None:
    """Nothing can be claimed meanwhile, and nothing is made."""
    plan = decide(seen(pool(), pod(1), workload=workload))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.ready) == (PoolPhase.DEGRADED, 0)
    assert plan.status.detail == f"workload web is being {word}"


def test_pods_that_no_node_can_take_are_waited_for() -> None:
    """Another one would fare no better, however long it takes."""
    late = starting(1, unschedulable="0/1 nodes", waited=timedelta(hours=1))
    plan = decide(seen(pool(size=1), late))
    assert isinstance(plan, WriteStatus)
    assert plan.status.detail == "1 of 1 waits: 0/1 nodes"
    assert isinstance(decide(seen(pool(size=1, status=plan.status), late)), Wait)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/1 nodes are available: 1 Insufficient cpu.", "insufficient cpu"),
        (
            "0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. preemption: 0/3",
            "insufficient memory, insufficient cpu",
        ),
        ("no nodes", "no nodes"),
    ],
)
def test_the_reason_is_told_without_the_counts(message: str, reason: str) -> None:
    """They are of nodes, and what a pool tells is of instances."""
    assert scheduler_reason(message) == reason


def test_what_instances_wait_for_is_counted_by_reason() -> None:
    """While those wait no more are made: what all of them wait for keeps the rest away too."""
    cpu = "0/1 nodes are available: 1 Insufficient cpu."
    tight = [starting(number, unschedulable=cpu) for number in (1, 2)]
    ready = [pod(number) for number in range(10, 62)]
    plan = decide(seen(pool(size=60), *tight, *ready))
    assert isinstance(plan, WriteStatus)
    assert plan.status.detail == "8 of 60 wait: insufficient cpu"
    (filled,) = plan.status.conditions
    assert filled.message == plan.status.detail

    deaf = starting(3, unready="readiness probe failed: connection refused")
    plan = decide(seen(pool(size=3, max_fill=3), *tight, deaf))
    assert isinstance(plan, WriteStatus)
    assert plan.status.detail == (
        "2 of 3 wait: insufficient cpu; "
        "1 of 3 waits: not ready: readiness probe failed: connection refused"
    )


def test_a_probe_that_fails_is_looked_at_again() -> None:
    """What it says may change; one that only starts may say something soon."""
    deaf = starting(1, unready="no answer", running=True)
    told = settled(deaf, size=1)
    assert decide(seen(told, deaf)) == Wait(told.status.detail, LOOK_AGAIN)
    young = starting(1, running=True)
    told = settled(young, size=1)
    assert decide(seen(told, young)) == Wait("instances are starting", LOOK_SOON)


def test_time_alone_wakes_a_pool_with_pods_that_start() -> None:
    """It looks again when the first one would be stuck."""
    slow = starting(1, trouble="tenant: CrashLoopBackOff")
    told = settled(slow, size=1)
    assert told.status.detail == "1 of 1 waits: tenant: CrashLoopBackOff"
    again = decide(seen(told, slow))
    assert again == Wait(told.status.detail, STUCK_AFTER - timedelta(seconds=5))


def test_a_quiet_start_says_nothing() -> None:
    """No detail while Pods simply start."""
    plan = decide(seen(pool(size=1), starting(1)))
    assert isinstance(plan, WriteStatus)
    assert plan.status.detail == ""


def test_deletion_drains_what_is_unclaimed_and_then_lets_go() -> None:
    """Terminating ones are not deleted twice; a pool that is gone drains as well."""
    going = pool(deleting=True)
    plan = decide(seen(going, pod(1), pod(2, terminating=True)))
    assert [step.pod.name for step in steps(plan, DeletePod)] == ["p1"]
    assert decide(seen(going, pod(2, terminating=True))) == Do((RemoveFinalizer(),))
    assert isinstance(decide(seen(replace(going, finalizers=()))), Wait)
    assert steps(decide(seen(None, pod(1))), DeletePod)


def test_a_pass_takes_only_so_many_steps() -> None:
    """A pool of thousands is drained in bounded passes."""
    many = [pod(n) for n in range(MOST_STEPS * 2)]
    plan = decide(seen(pool(deleting=True), *many))
    assert isinstance(plan, Do)
    assert len(plan.steps) == MOST_STEPS
