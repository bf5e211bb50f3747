"""What is decided about a claim, branch by branch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.names import TENANT_RULE
from boilerhouse.core.plan import Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.tenancy.claims.decide import ATTEMPTS, decide, error_reason
from boilerhouse.tenancy.claims.deciding.obtaining import LOOK_SOON, keeps_choice
from boilerhouse.tenancy.claims.intent import Intent, cold
from boilerhouse.tenancy.claims.machine import CLAIM, ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Endpoint, Source
from boilerhouse.tenancy.claims.seen import (
    BindPod,
    ClaimSeen,
    CreatePod,
    DeleteClaim,
    DeletePod,
    DeliverIdentity,
    LookForRival,
    WriteIntent,
)
from boilerhouse.tenancy.instances.seen import Blueprint, ClaimRef
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from tests.unit.tenancy.claims.views import (
    NOW,
    READY,
    WARM,
    bound,
    claim,
    failure,
    keeping,
    seen,
    warm,
)

P = ClaimPhase
SPARE = Intent("warm-2", "pod-2")
ACTIVE = decide(seen(claim(intent=WARM), pod=bound()))
assert isinstance(ACTIVE, WriteStatus)
MET = msgspec.structs.replace(ACTIVE.status)
TOLD = decide(seen(claim(P.ACTIVE, status=MET, intent=WARM), pod=bound(), delivered=True))
assert isinstance(TOLD, WriteStatus)
SETTLED = TOLD.status


def phase_of(plan: object) -> tuple[ClaimPhase, str]:
    assert isinstance(plan, WriteStatus), plan
    return plan.status.phase, plan.status.detail


def test_strays_go_before_anything_else() -> None:
    """A Pod that carries the claim and is not its own is deleted, whatever the phase."""
    stray = bound(name="old", uid="pod-0")
    for phase in P:
        plan = decide(seen(claim(phase, intent=WARM), pod=bound(), strays=(stray,)))
        assert isinstance(plan, Do)
        assert [step.pod for step in plan.steps if isinstance(step, DeletePod)] == [stray]


def test_pods_of_a_claim_that_is_gone_are_strays() -> None:
    """Without a claim its Pods are deleted, and then there is nothing to do."""
    plan = decide(seen(None, strays=(bound(),)))
    assert isinstance(plan, Do)
    assert isinstance(decide(seen(None)), Wait)


def test_strays_that_cannot_be_deleted_are_tried_again_later() -> None:
    """A failed step waits for its time."""
    failed = failure("DeletePod")
    plan = decide(seen(claim(), strays=(bound(),), failure=failed))
    assert plan == Wait("because", timedelta(seconds=5))


# Choosing


def test_a_spare_is_chosen_before_a_cold_pod() -> None:
    """Without an intent a warm Pod is named by name and UID."""
    assert decide(seen(claim(), spare=WARM)) == WriteIntent(WARM)


def test_without_a_spare_a_cold_pod_is_named() -> None:
    """The name depends on the claim's UID and version, so it never repeats."""
    plan = decide(seen(claim()))
    assert plan == WriteIntent(cold("alice", "web", "claim-1", "7"))
    assert isinstance(plan, WriteIntent)
    assert plan.intent is not None and plan.intent.uid == ""
    other = decide(seen(claim(version="8")))
    assert isinstance(other, WriteIntent)
    assert other.intent is not None and other.intent.pod != plan.intent.pod


def test_an_intent_that_came_with_the_object_is_held_first() -> None:
    """Nothing is bound before the finalizer is there."""
    plan = decide(seen(claim(intent=WARM, finalizers=()), pod=warm()))
    assert plan == WriteIntent(WARM)


def test_the_named_warm_pod_is_bound() -> None:
    """A canonical claim looks for rivals beside the bind, unless it knows already."""
    assert decide(seen(claim(intent=WARM), pod=warm())) == Do((BindPod(warm()),))
    plan = decide(seen(claim(intent=WARM), pod=warm(), sole=False))
    assert plan == Do((BindPod(warm()), LookForRival()))


def test_a_claim_under_another_name_looks_for_rivals_first() -> None:
    """Before it has the Lease it touches nothing."""
    other = claim(name="mine", intent=WARM)
    assert decide(seen(other, pod=warm(), sole=False)) == Do((LookForRival(),))
    ready = decide(seen(other, pod=warm()))
    assert ready == Do((BindPod(warm()),))


@pytest.mark.parametrize(
    "unfit",
    [
        {"ready": False},
        {"running": False},
        {"ip": ""},
        {"template": "t0"},
        {"workload": "other"},
        {"pool_status": "warming"},
    ],
)
def test_a_warm_pod_that_is_not_fit_is_deleted_before_another_is_chosen(
    unfit: dict[str, object],
) -> None:
    """Abandoning deletes first, so that nobody can bind it any more."""
    pod = warm(**unfit)
    plan = decide(seen(claim(intent=WARM), pod=pod, spare=SPARE))
    assert isinstance(plan, Do)
    assert [type(step) for step in plan.steps] == [DeletePod]


def test_a_warm_pod_on_a_sick_node_is_not_used() -> None:
    """The node must be healthy when the Pod is taken."""
    plan = decide(seen(claim(intent=WARM), pod=warm(), pod_on_healthy_node=False))
    assert isinstance(plan, Do)
    assert [type(step) for step in plan.steps] == [DeletePod]


@pytest.mark.parametrize(
    "lost",
    [
        None,
        warm(uid="pod-9"),
        warm(claim=ClaimRef("other", "claim-2"), pool=""),
        warm(terminating=True),
        warm(pool=""),
        bound(terminating=True),
    ],
    ids=["gone", "another-uid", "foreign", "terminating", "never-warm", "own-terminating"],
)
def test_a_pod_that_is_lost_or_foreign_is_skipped(lost: object) -> None:
    """It needs no deletion: nobody can bind it for this claim any more."""
    assert decide(seen(claim(intent=WARM), pod=lost, spare=SPARE)) == WriteIntent(SPARE)


# Cold


COLD = Intent("inst-alice-web-abc")


def test_a_named_cold_pod_is_created() -> None:
    """The server said that it is not there."""
    assert decide(seen(claim(intent=COLD))) == Do((CreatePod(COLD.pod),))


def test_a_cold_pod_is_pinned_by_its_uid() -> None:
    """Once it is seen, its UID is written down before anything else."""
    pod = bound(name=COLD.pod, uid="pod-5", source="cold")
    assert decide(seen(claim(intent=COLD), pod=pod)) == WriteIntent(Intent(COLD.pod, "pod-5"))


def test_a_cold_name_that_is_taken_is_given_up() -> None:
    """A Pod of that name which does not carry the claim is somebody else's."""
    pod = warm(name=COLD.pod, uid="pod-5", pool="")
    plan = decide(seen(claim(intent=COLD), pod=pod))
    assert plan == WriteIntent(cold("alice", "web", "claim-1", "7"))


def test_a_refused_cold_pod_gives_way_to_a_warm_one() -> None:
    """A quota that refuses new Pods does not keep the tenant from a Pod that is there."""
    refused = failure("CreatePod", refused=True)
    plan = decide(seen(claim(P.ERROR, intent=COLD), spare=WARM, failure=refused))
    assert plan == WriteIntent(WARM)


# Becoming Active


def test_a_ready_bound_pod_makes_the_claim_active() -> None:
    """Endpoint, source, instance, time and conditions come in the one write."""
    plan = decide(seen(claim(intent=WARM), pod=bound()))
    assert isinstance(plan, WriteStatus)
    status = plan.status
    assert status.phase == P.ACTIVE
    assert status.endpoint == Endpoint("10.0.0.1", 8080)
    assert (status.source, status.instance_id) == (Source.POOL, "warm-1")
    assert status.claimed_at == NOW
    assert status.observed_generation == 1
    ready = find(status.conditions, "InstanceReady")
    told = find(status.conditions, "IdentityDelivered")
    assert ready is not None and ready.status == ConditionStatus.TRUE
    assert told is not None and told.status == ConditionStatus.UNKNOWN


def test_a_cold_pod_is_a_cold_source() -> None:
    """What the Pod says of its birth is the source."""
    plan = decide(seen(claim(intent=WARM), pod=bound(source="cold")))
    assert isinstance(plan, WriteStatus)
    assert plan.status.source == Source.COLD


def test_source_and_time_are_written_once() -> None:
    """S0: a source that is there stays."""
    before = ClaimStatus(source=Source.COLD, claimed_at=NOW - timedelta(days=1))
    plan = decide(seen(claim(intent=WARM, status=before), pod=bound()))
    assert isinstance(plan, WriteStatus)
    assert plan.status.source == Source.COLD
    assert plan.status.claimed_at == before.claimed_at


def test_nothing_becomes_active_before_rivals_were_looked_for() -> None:
    """A bound Pod waits for the answer."""
    assert decide(seen(claim(intent=WARM), pod=bound(), sole=False)) == Do((LookForRival(),))


def test_a_claim_with_a_rival_gives_its_pod_up() -> None:
    """It names none, so the Pod is a stray; it says whose the tenant is, and looks again later."""
    rival = failure("LookForRival", refused=True)
    plan = decide(seen(claim(intent=WARM), pod=bound(), sole=False, failure=rival))
    assert plan == WriteIntent(None)
    gone = decide(seen(claim(), sole=False, failure=rival))
    assert phase_of(gone) == (P.ERROR, "because")
    assert isinstance(gone, WriteStatus)
    held = claim(P.ERROR, intent=WARM, status=gone.status)
    assert decide(seen(held, sole=False, failure=rival)) == Wait("because", rival.due_in)


def test_a_transient_failure_to_look_keeps_the_pod() -> None:
    """Not knowing is no reason to give anything up."""
    unknown = failure("LookForRival", due=-1)
    plan = decide(seen(claim(intent=WARM), pod=bound(), sole=False, failure=unknown))
    assert plan == Do((LookForRival(),))


def test_a_bound_pod_that_is_not_ready_is_waited_for() -> None:
    """No write while there is nothing to say."""
    held = claim(intent=WARM, status=ClaimStatus(observed_generation=1))
    waiting = Wait("the instance is starting", LOOK_SOON)
    assert decide(seen(held, pod=bound(ready=False))) == waiting


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        ({"unschedulable": "0/1 nodes are available"}, "0/1 nodes are available"),
        ({"trouble": "tenant: CrashLoopBackOff"}, "CrashLoopBackOff"),
        ({"image_failure": "ErrImagePull"}, "ErrImagePull"),
    ],
)
def test_trouble_is_told_while_pending(trouble: dict[str, object], word: str) -> None:
    """Unschedulable stays Pending, with the scheduler's words; so do crashes and a first pull."""
    phase, detail = phase_of(decide(seen(claim(intent=WARM), pod=bound(ready=False, **trouble))))
    assert phase == P.PENDING
    assert word in detail


def test_an_image_that_keeps_failing_is_an_error() -> None:
    """After a minute of failures the claim says so, and recovers when the image arrives."""
    pod = bound(ready=False, image_failure="ErrImagePull", waited=timedelta(minutes=1))
    plan = decide(seen(claim(intent=WARM), pod=pod))
    phase, detail = phase_of(plan)
    assert phase == P.ERROR
    assert isinstance(plan, WriteStatus)
    told = claim(P.ERROR, intent=WARM, status=plan.status)
    assert decide(seen(told, pod=pod)) == Wait(detail)
    assert phase_of(decide(seen(told, pod=bound()))) == (P.PENDING, "")


def test_an_own_pod_that_has_ended_is_given_up() -> None:
    """An evicted Pod is named no more, which makes it a stray."""
    pod = bound(ended="Failed: Evicted")
    assert decide(seen(claim(intent=WARM), pod=pod, spare=SPARE)) == WriteIntent(SPARE)


@pytest.mark.parametrize(("tenant", "shown"), [("e\u0301x", "e\\u0301x"), ("a\u202eb", "\\u202e")])
def test_a_bad_tenant_id_is_an_error_at_once(tenant: str, shown: str) -> None:
    """Said with the rule, before anything is chosen, created or looked up; and once."""
    bad = claim(name="mine", tenant=tenant, finalizers=())
    plan = decide(seen(bad, spare=SPARE, workload=keeping(), sole=False))
    phase, detail = phase_of(plan)
    assert phase == P.ERROR
    assert TENANT_RULE in detail and shown in detail
    assert isinstance(plan, WriteStatus)
    assert error_reason(plan.status) == "BadTenantId"
    told = replace(bad, status=plan.status)
    assert decide(seen(told, spare=SPARE)) == Wait(detail)
    going = decide(seen(replace(told, deleting=True)))
    assert phase_of(going)[0] == P.RELEASING


def test_a_claim_with_a_bad_tenant_id_gives_its_pod_up() -> None:
    """Whoever chose one for it: it becomes a stray, and never Active."""
    bad = claim(tenant="a\u202eb", intent=WARM)
    for pod in (None, warm(), bound()):
        assert decide(seen(bad, pod=pod)) == WriteIntent(None)


# Workloads


@pytest.mark.parametrize(
    ("workload", "word"),
    [
        (None, "does not exist"),
        (replace(READY, deleting=True), "is being deleted"),
        (Blueprint("web", WorkloadPhase.ERROR, "no image"), "no image"),
    ],
)
def test_a_workload_that_cannot_be_used_is_an_error(workload: Blueprint | None, word: str) -> None:
    """Missing, deleted or in Error: the claim is in Error and names the reason, once."""
    plan = decide(seen(claim(), workload=workload))
    phase, detail = phase_of(plan)
    assert phase == P.ERROR
    assert word in detail
    assert isinstance(plan, WriteStatus)
    told = claim(P.ERROR, status=plan.status)
    assert decide(seen(told, workload=workload)) == Wait(detail)


def test_a_workload_in_creating_keeps_the_claim_pending() -> None:
    """It says what it waits for; a claim that was in Error does not flap."""
    creating = Blueprint("web", WorkloadPhase.CREATING)
    phase, detail = phase_of(decide(seen(claim(), workload=creating)))
    assert (phase, detail) == (P.PENDING, "workload web is being prepared")
    told = claim(status=ClaimStatus(detail=detail, observed_generation=1))
    assert decide(seen(told, workload=creating)) == Wait(detail)
    failed = claim(P.ERROR, status=ClaimStatus(detail="no image", observed_generation=1))
    assert isinstance(decide(seen(failed, workload=creating)), Wait)


def test_a_bound_claim_goes_on_while_its_workload_changes() -> None:
    """What was begun is finished: the Pod is there."""
    creating = Blueprint("web", WorkloadPhase.CREATING)
    assert phase_of(decide(seen(claim(intent=WARM), workload=creating, pod=bound())))[0] == P.ACTIVE


@pytest.mark.parametrize(
    "trouble", [{"trouble": "tenant: CrashLoopBackOff"}, {"unschedulable": "0/1 nodes"}, {}]
)
@pytest.mark.parametrize("phase", [P.PENDING, P.ERROR])
def test_an_own_pod_of_an_older_spec_is_given_up_while_it_cannot_be_used(
    phase: ClaimPhase, trouble: dict[str, object]
) -> None:
    """By choosing another, warm if there is one: whoever makes it Active at once is not undone."""
    old = bound(ready=False, template="t0", **trouble)
    held = claim(phase, intent=WARM)
    assert decide(seen(held, pod=old, spare=SPARE)) == WriteIntent(SPARE)
    assert decide(seen(held, pod=old)) == WriteIntent(cold("alice", "web", "claim-1", "7"))
    assert not keeps_choice(seen(held, pod=old), held)
    assert keeps_choice(seen(held, pod=bound(ready=False)), held)


def test_an_own_pod_of_an_older_spec_is_used_if_it_can_be() -> None:
    """The claim was made for the spec of its time, and the instance is there."""
    old = bound(template="t0")
    assert phase_of(decide(seen(claim(intent=WARM), pod=old, spare=SPARE)))[0] == P.ACTIVE


@pytest.mark.parametrize("phase", [WorkloadPhase.CREATING, WorkloadPhase.ERROR])
def test_an_own_pod_stays_until_the_new_spec_is_ready(phase: WorkloadPhase) -> None:
    """What comes of the change is not known: it may be taken back."""
    old = bound(ready=False, template="t0", trouble="tenant: CrashLoopBackOff")
    unchecked = Blueprint("web", phase, "no image")
    told = phase_of(decide(seen(claim(intent=WARM), workload=unchecked, pod=old, spare=SPARE)))
    assert told == (P.PENDING, "tenant: CrashLoopBackOff")
    going = replace(READY, deleting=True)
    assert phase_of(decide(seen(claim(intent=WARM), workload=going, pod=old))) == told


@pytest.mark.parametrize("phase", [P.ACTIVE, P.RELEASE_FAILED])
def test_a_pod_that_was_active_is_not_replaced(phase: ClaimPhase) -> None:
    """However old its spec, whatever its trouble: the tenant has used it, and keeps it."""
    old = bound(ready=False, template="t0", trouble="tenant: CrashLoopBackOff")
    again = claim(phase, status=SETTLED, intent=WARM, again=1)
    plan = decide(seen(again, pod=old, spare=SPARE, thawed=True))
    assert phase_of(plan)[0] == P.ACTIVE


# Failures


def test_a_failed_step_waits_for_its_time_in_pending() -> None:
    """A few failures are nobody's business."""
    failed = failure("CreatePod", count=ATTEMPTS - 1)
    assert decide(seen(claim(intent=COLD), failure=failed)) == Wait("because", failed.due_in)
    due = failure("CreatePod", count=ATTEMPTS - 1, due=0)
    assert decide(seen(claim(intent=COLD), failure=due)) == Do((CreatePod(COLD.pod),))


def test_ten_failures_in_a_row_are_an_error_that_is_still_tried() -> None:
    """S0's reconcile failure; retried in Error, so that the phase does not flap."""
    failed = failure("CreatePod", count=ATTEMPTS)
    assert phase_of(decide(seen(claim(intent=COLD), failure=failed))) == (P.ERROR, "because")
    written = decide(seen(claim(intent=COLD), failure=failed))
    assert isinstance(written, WriteStatus)
    told = claim(P.ERROR, intent=COLD, status=written.status)
    assert decide(seen(told, failure=failed)) == Wait("because", failed.due_in)
    due = replace(failed, due_in=timedelta(0))
    assert decide(seen(told, failure=due)) == Do((CreatePod(COLD.pod),))


def test_a_refusal_is_an_error_at_once() -> None:
    """A quota is not going to change its mind ten times."""
    refused = failure("CreatePod", refused=True)
    assert phase_of(decide(seen(claim(intent=COLD), failure=refused))) == (P.ERROR, "because")


def test_the_reason_of_an_error_is_on_the_claim() -> None:
    """Whoever asks later, another process included, finds the word; it goes when it is over."""
    plan = decide(seen(claim(), workload=None))
    assert isinstance(plan, WriteStatus)
    assert error_reason(plan.status) == "WorkloadNotFound"
    held = claim(P.ERROR, status=plan.status)
    assert decide(seen(held, workload=None)) == Wait("workload web does not exist")
    recovered = decide(seen(replace(held, intent=WARM), pod=bound()))
    assert isinstance(recovered, WriteStatus)
    assert error_reason(recovered.status) == "Recovered"
    assert error_reason(ClaimStatus(phase=P.ERROR)) == "ClaimError"


def test_error_becomes_pending_when_the_step_has_worked() -> None:
    """The Pod is there: that is success, ready or not."""
    told = claim(P.ERROR, intent=WARM, status=ClaimStatus(detail="because", observed_generation=1))
    assert phase_of(decide(seen(told, pod=bound(ready=False)))) == (P.PENDING, "")
    assert phase_of(decide(seen(told, pod=bound()))) == (P.PENDING, "")


def test_a_setback_of_another_step_holds_nothing_up() -> None:
    """Only the step that failed waits."""
    other = failure("DeliverIdentity")
    assert decide(seen(claim(intent=WARM), pod=warm(), failure=other)) == Do((BindPod(warm()),))


# Active


def active(**changes: Any) -> ClaimSeen:
    status = changes.pop("status", SETTLED)
    held = claim(P.ACTIVE, status=status, intent=WARM)
    return replace(held, **changes)


def test_an_active_claim_with_its_instance_has_nothing_to_do() -> None:
    """No status is written that is there already."""
    assert decide(seen(active(), pod=bound(), workload=None)) == Wait("claim satisfied")


def test_identity_is_delivered_after_activation() -> None:
    """Active does not wait for it; the condition tells when it is done."""
    held = active(status=MET)
    assert decide(seen(held, pod=bound())) == Do((DeliverIdentity("warm-1", "pod-1"),))
    failed = failure("DeliverIdentity")
    assert decide(seen(held, pod=bound(), failure=failed)) == Wait("because", failed.due_in)
    plan = decide(seen(held, pod=bound(), delivered=True))
    assert isinstance(plan, WriteStatus)
    told = find(plan.status.conditions, "IdentityDelivered")
    assert told is not None and told.status == ConditionStatus.TRUE


def test_identity_is_delivered_again_to_an_agent_that_began_anew() -> None:
    """The files lie in memory, which a machine that was down has lost."""
    again = bound(agent_restarts=1)
    plan = decide(seen(active(), pod=again))
    assert isinstance(plan, WriteStatus)
    told = find(plan.status.conditions, "IdentityDelivered")
    assert told is not None and told.status == ConditionStatus.UNKNOWN
    unsure = active(status=plan.status)
    assert decide(seen(unsure, pod=again)) == Do((DeliverIdentity("warm-1", "pod-1"),))
    plan = decide(seen(unsure, pod=again, delivered=True))
    assert isinstance(plan, WriteStatus)
    assert decide(seen(active(status=plan.status), pod=again)) == Wait("claim satisfied")


def test_a_crash_loop_stays_active_and_is_told() -> None:
    """InstanceReady is False, the endpoint stays, and comes back True."""
    crashing = bound(ready=False, trouble="tenant: CrashLoopBackOff")
    plan = decide(seen(active(), pod=crashing))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.endpoint) == (P.ACTIVE, SETTLED.endpoint)
    ready = find(plan.status.conditions, "InstanceReady")
    assert ready is not None
    assert (ready.status, ready.message) == (ConditionStatus.FALSE, "tenant: CrashLoopBackOff")
    back = decide(seen(active(status=plan.status), pod=bound(ip="10.0.0.9")))
    assert isinstance(back, WriteStatus)
    assert back.status.endpoint == Endpoint("10.0.0.9", 8080)


@pytest.mark.parametrize(
    ("pod", "word"),
    [
        (None, "destroyed or lost"),
        (bound(uid="pod-9"), "destroyed or lost"),
        (bound(claim=ClaimRef("x", "y")), "destroyed or lost"),
        (bound(terminating=True), "deleted by somebody else"),
        (bound(ended="Failed: Evicted"), "Evicted"),
    ],
)
def test_a_lost_instance_releases_its_claim(pod: object, word: str) -> None:
    """Every claim ends in Released, whatever became of its Pod."""
    phase, detail = phase_of(decide(seen(active(), pod=pod)))
    assert phase == P.RELEASING
    assert word in detail


@pytest.mark.parametrize("phase", [P.PENDING, P.ERROR, P.ACTIVE])
def test_deleting_or_releasing_leads_to_releasing(phase: ClaimPhase) -> None:
    """kubectl delete and the REST annotation walk the same edge."""
    status = SETTLED if phase == P.ACTIVE else ClaimStatus()
    for how, word in (({"deleting": True}, "deleted"), ({"release": True}, "released")):
        leaving = claim(phase, intent=WARM, status=status, **how)
        to, detail = phase_of(decide(seen(leaving, pod=bound())))
        assert to == P.RELEASING
        assert detail.startswith(word)
        assert ("before it became Active" in detail) == (phase != P.ACTIVE)


# Releasing, Released


def test_releasing_removes_the_instance() -> None:
    """Its own Pod, and one that was chosen and not bound yet; never another's."""
    leaving = claim(P.RELEASING, intent=WARM)
    for pod in (bound(), warm()):
        plan = decide(seen(leaving, pod=pod))
        assert isinstance(plan, Do)
        assert [type(step) for step in plan.steps] == [DeletePod]
    for other in (warm(claim=ClaimRef("x", "y"), pool=""), warm(uid="pod-9"), warm(pool="")):
        assert phase_of(decide(seen(leaving, pod=other)))[0] == P.RELEASED


def test_releasing_waits_for_a_pod_that_stops_and_hurries_a_slow_one() -> None:
    """Released means gone."""
    leaving = claim(P.RELEASING, intent=WARM)
    assert isinstance(decide(seen(leaving, pod=bound(terminating=True))), Wait)
    assert isinstance(decide(seen(leaving, pod=bound(terminating=True, grace=120))), Do)


def test_released_when_the_instance_is_gone() -> None:
    """Endpoint and instance go, source and detail stay."""
    status = msgspec.structs.replace(SETTLED, detail="released")
    plan = decide(seen(claim(P.RELEASING, intent=WARM, status=status)))
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.detail) == (P.RELEASED, "released")
    assert (plan.status.endpoint, plan.status.instance_id) == (None, "")
    assert plan.status.source == Source.POOL
    without = decide(seen(claim(P.RELEASING)))
    assert phase_of(without)[0] == P.RELEASED


def test_a_released_claim_is_let_go() -> None:
    """The finalizer first; then the object, if REST asked for the release."""
    done = claim(P.RELEASED)
    assert decide(seen(done)) == Do((RemoveFinalizer(),))
    free = replace(done, finalizers=())
    assert decide(seen(free)) == Wait("released")
    assert decide(seen(replace(free, release=True))) == Do((DeleteClaim(),))
    assert decide(seen(replace(free, release=True, deleting=True))) == Wait("released")


def test_every_phase_written_is_an_edge_of_the_table() -> None:
    """`decide` is total: each phase, with each kind of Pod, gives a plan with a legal phase."""
    pods = [None, warm(), bound(), bound(ready=False), bound(terminating=True)]
    for phase in P:
        for pod in pods:
            for leaving in (False, True):
                for intent in (None, WARM, COLD):
                    one = claim(phase, intent=intent, deleting=leaving)
                    plan = decide(seen(one, pod=pod))
                    if isinstance(plan, WriteStatus):
                        assert CLAIM.allows(phase, plan.status.phase)
                        assert plan.status != one.status
