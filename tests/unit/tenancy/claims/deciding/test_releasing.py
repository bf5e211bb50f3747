"""Saving, failing to, and coming back: what is decided on the way out, branch by branch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from boilerhouse.core.condition import Condition, ConditionStatus, find
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.tenancy.claims.decide import decide
from boilerhouse.tenancy.claims.deciding.epochs import DELAYS, TRIES
from boilerhouse.tenancy.claims.deciding.status import is_true
from boilerhouse.tenancy.claims.machine import CLAIM, ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Release, SnapshotRefs, Source
from boilerhouse.tenancy.claims.seen import (
    QUEUED,
    ClaimSeen,
    DeleteClaim,
    DeletePod,
    LookAtUsage,
    LookUpSnapshot,
    Plan,
    RunHook,
    Save,
    SavedSeen,
    Seen,
    Thaw,
    UsageSeen,
)
from boilerhouse.tenancy.instances.seen import ClaimRef, InstanceSeen
from tests.unit.tenancy.claims.views import NOW, WARM, claim, failure, full, keeping, seen

P = ClaimPhase
D = "d" * 64
NEW = "f" * 64
KEEPING = keeping()
HOOK = {"preHibernate": {"command": ["/bin/flush"], "timeoutSeconds": 9}}
USED = ClaimStatus(
    observed_generation=1,
    detail="released",
    instance_id="warm-1",
    claimed_at=NOW,
    source=Source.POOL_DATA,
    release=Release(epoch=1, cause="released"),
    snapshot=SnapshotRefs(base=D, restored=D),
)


def saving(pod: InstanceSeen) -> Save:
    return Save(pod, D, 1, 3)


SAVE = saving(full())


def status(**changes: Any) -> ClaimStatus:
    return msgspec.structs.replace(USED, **changes)


def releasing(state: ClaimStatus = USED, **changes: Any) -> ClaimSeen:
    return claim(P.RELEASING, intent=WARM, status=state, **changes)


def decided(of: ClaimSeen, **changes: Any) -> Plan:
    return decide(seen(of, **{"workload": KEEPING, "pod": full(), **changes}))


def written(plan: Plan) -> ClaimStatus:
    assert isinstance(plan, WriteStatus), plan
    return plan.status


def deletes(plan: Plan) -> bool:
    return isinstance(plan, Do) and [type(step) for step in plan.steps] == [DeletePod]


# Saving


def test_what_no_archive_can_keep_is_told() -> None:
    """As a condition and by an Event, beside a conflict as well."""
    left = ("workspace/s: a socket, which cannot be kept",)
    plan = decided(releasing(), saved=SavedSeen(NEW, skipped=left))
    assert isinstance(plan, WriteStatus) and plan.reason == "SavedInPart"
    told = find(plan.status.conditions, "SavedInPart")
    assert told is not None and told.message == f"not in any snapshot: {left[0]}"
    plan = decided(releasing(), saved=SavedSeen(NEW, side_version=True, skipped=left))
    assert isinstance(plan, WriteStatus) and plan.reason == "SnapshotConflict"
    assert find(plan.status.conditions, "SavedInPart") is not None


def test_what_a_clean_start_may_replace_is_looked_up_if_nobody_knew() -> None:
    """The helper was away when it started; without an answer nothing is saved."""
    state = status(snapshot=None, source=Source.POOL)
    clean = releasing(state, resume=False)
    assert decided(clean) == Do((LookUpSnapshot(),))
    assert decided(clean, stored=D) == Do((Save(full(), D, 1, 3, clean=True),))
    assert decided(clean, stored="") == Do((Save(full(), "", 1, 3),))
    plan = decided(clean, stored=D, saved=SavedSeen(NEW))
    assert written(plan).snapshot == SnapshotRefs(base=D, saved=NEW)
    plan = decided(clean, failure=failure("LookUpSnapshot", count=TRIES))
    assert written(plan).phase == P.RELEASE_FAILED
    # Known: nothing was stored, or it was to be restored.
    nothing = Do((Save(full(), "", 1, 3),))
    assert decided(releasing(status(snapshot=SnapshotRefs()), resume=False)) == nothing
    assert decided(releasing(state), stored=D) == nothing


def test_files_are_saved_before_the_pod_goes() -> None:
    """Save, written down, deleted: in this order."""
    assert decided(releasing()) == Do((SAVE,))
    plan = decided(releasing(), saved=SavedSeen(NEW))
    assert isinstance(plan, WriteStatus) and plan.reason == "Saved"
    assert plan.status.phase == P.RELEASING
    assert plan.status.snapshot == SnapshotRefs(base=D, restored=D, saved=NEW)
    assert deletes(decided(releasing(plan.status)))
    released = written(decided(releasing(plan.status), pod=None))
    assert (released.phase, released.detail) == (P.RELEASED, "released")
    assert released.release is not None and released.release.released_at == NOW


def test_a_released_claim_has_no_ready_instance() -> None:
    """Whatever was said of it while it was there."""
    ready = Condition("InstanceReady", ConditionStatus.TRUE, NOW, "Ready", "")
    released = written(decided(releasing(status(conditions=(ready,))), pod=None))
    found = find(released.conditions, "InstanceReady")
    assert found is not None and (found.status, found.reason) == (ConditionStatus.FALSE, "Released")
    assert written(decided(releasing(), pod=None)).conditions == ()


def test_a_tenant_without_a_past_is_saved_too() -> None:
    """The base is nothing, and the workload may be gone: what the Pod has counts."""
    fresh = releasing(status(snapshot=None))
    assert decided(fresh, workload=None) == Do((Save(full(), "", 1, 3),))
    assert written(decided(fresh, saved=SavedSeen(NEW))).snapshot == SnapshotRefs(saved=NEW)


def test_another_life_of_the_pod_is_saved_again() -> None:
    """Its node was down in between: it may have written since."""
    saved = written(decided(releasing(), saved=SavedSeen(NEW)))
    for other in (full(container="c2"), full(restarts=1), full(agent_restarts=1)):
        assert decided(releasing(saved), pod=other) == Do((saving(other),))


@pytest.mark.parametrize(
    ("state", "pod", "changes"),
    [
        (status(claimed_at=None), full(), {}),
        (USED, full(overlays=False), {}),
        (status(release=Release(epoch=1, drop=True)), full(), {}),
        (USED, full(), {"force": True}),
        (USED, full(ended="Failed: Evicted"), {}),
    ],
    ids=["never-active", "no-files", "dropped", "forced", "ended"],
)
def test_what_need_not_or_cannot_be_saved_is_deleted(
    state: ClaimStatus, pod: object, changes: dict[str, Any]
) -> None:
    """Nothing of the tenant's is in it, or somebody said so, or its agent is dead."""
    assert deletes(decided(releasing(state, **changes), pod=pod))


def test_a_save_under_way_is_waited_for() -> None:
    """So is its hook."""
    for job in ("Save", "RunHook"):
        plan = decided(releasing(), busy=frozenset({job}))
        assert plan == Wait("the files are being saved")


def test_a_save_that_waits_for_its_turn_says_so() -> None:
    """Who asks why it takes so long is told."""
    plan = decided(releasing(), busy=frozenset({"Save", QUEUED}))
    assert plan == Wait("the files of others are saved first")


def test_a_version_that_may_not_replace_another_is_told() -> None:
    """It is kept, and the release goes on."""
    plan = decided(releasing(), saved=SavedSeen(NEW, side_version=True))
    assert isinstance(plan, WriteStatus) and plan.reason == "SnapshotConflict"
    told = find(plan.status.conditions, "SnapshotConflict")
    assert told is not None and told.status == ConditionStatus.TRUE and NEW in told.message
    assert deletes(decided(releasing(plan.status)))


# Hooks


def test_the_hook_runs_before_the_save_once_in_a_round() -> None:
    """Not in a dead container, and not in one that is being stopped."""
    hooked = keeping(hooks=HOOK)
    run = RunHook(full(), "preHibernate", ("/bin/flush",), timedelta(seconds=9), False, "1")
    assert decided(releasing(), workload=hooked) == Do((run,))
    assert decided(releasing(), workload=hooked, hooked=True) == Do((SAVE,))
    dead = full(tenant_runs=False)
    assert decided(releasing(), workload=hooked, pod=dead) == Do((saving(dead),))


def test_a_hook_that_must_work_fails_the_release() -> None:
    """As a save that fails."""
    hooks = {"preHibernate": HOOK["preHibernate"] | {"onFailure": "fail"}}
    failing = failure("RunHook", count=TRIES)
    plan = decided(releasing(), workload=keeping(hooks=hooks), failure=failing)
    assert written(plan).phase == P.RELEASE_FAILED


def full_disk() -> ClaimStatus:
    stated = Condition("DiskFull", ConditionStatus.TRUE, NOW, "DiskFull", "its disk is full")
    return status(conditions=(stated,))


def test_a_hook_does_not_keep_a_full_instance_from_being_released() -> None:
    """It may need the program that stands still."""
    hooks = {"preHibernate": HOOK["preHibernate"] | {"onFailure": "fail"}}
    for state, must in ((USED, True), (full_disk(), False)):
        plan = decided(releasing(state), workload=keeping(hooks=hooks))
        assert isinstance(plan, Do)
        [step] = plan.steps
        assert isinstance(step, RunHook) and step.must is must


def test_a_disk_is_not_full_any_more_when_its_instance_is_gone() -> None:
    """No condition is left that was of the instance."""
    released = written(decided(releasing(full_disk()), pod=None))
    stated = find(released.conditions, "DiskFull")
    assert stated is not None
    assert (stated.status, stated.reason) == (ConditionStatus.FALSE, "Released")


# From outside


def test_a_pod_deleted_by_somebody_else_is_saved_within_its_grace() -> None:
    """After its last words, or a while; without a hook; however often that fails."""
    hooked = keeping(hooks=HOOK)
    going = full(terminating=True, grace=120, waited=timedelta(seconds=1))
    plan = decided(releasing(), workload=hooked, pod=going)
    assert plan == Wait("the instance was told to stop by somebody else", timedelta(seconds=4))
    hurried = replace(going, grace=8)
    plan = decided(releasing(), workload=hooked, pod=hurried)
    assert plan == Wait("the instance was told to stop by somebody else", timedelta(seconds=1))
    for silent in (replace(going, tenant_runs=False), replace(going, waited=timedelta(seconds=5))):
        save = Do((saving(silent),))
        assert decided(releasing(), workload=hooked, pod=silent) == save
        failing = failure("Save", count=TRIES, due=0)
        assert decided(releasing(), workload=hooked, pod=silent, failure=failing) == save


def test_a_lost_instance_says_what_is_lost() -> None:
    """Unless everything was saved, or there was nothing to save."""
    lost = "released; what was newer than the last snapshot is lost"
    assert written(decided(releasing(), pod=None)).detail == lost
    for state, workload in (
        (status(snapshot=SnapshotRefs(saved=NEW)), KEEPING),
        (status(claimed_at=None), KEEPING),
        (USED, None),
        (USED, keeping(filesystem={})),
    ):
        plan = decided(releasing(state), pod=None, workload=workload)
        assert written(plan).detail == "released"


# Failing


def test_three_failures_in_a_row_are_release_failed() -> None:
    """With the reason, the attempts and when it is tried again; the Pod is kept."""
    for count in range(1, TRIES):
        assert decided(releasing(), failure=failure("Save", count=count)) == Wait(
            "because", timedelta(seconds=5)
        )
    state = written(decided(releasing(release=True), failure=failure("Save", count=TRIES)))
    assert (state.phase, state.detail) == (P.RELEASE_FAILED, "the files are not saved: because")
    assert state.release == Release(
        epoch=1,
        cause="released",
        attempts=3,
        failed_at=NOW,
        next_try_at=NOW + timedelta(minutes=1),
        last_error="because",
        asked=True,
    )


def test_tries_come_later_each_time() -> None:
    """After 1, 4, 16 and then every 30 minutes; what it is released for stays."""
    state, waits = USED, []
    for _ in range(5):
        state = written(decided(releasing(state), failure=failure("Save", count=TRIES)))
        assert state.release is not None and state.release.next_try_at is not None
        waits.append(state.release.next_try_at - NOW)
        failed = claim(P.RELEASE_FAILED, intent=WARM, status=state)
        due = replace(seen(failed, workload=KEEPING, pod=full()), now=state.release.next_try_at)
        state = written(decide(due))
        assert (state.phase, state.detail) == (P.RELEASING, "released")
    assert waits == [*DELAYS, DELAYS[-1]]
    assert state.release is not None and (state.release.epoch, state.release.attempts) == (6, 15)


def test_what_is_saved_once_is_never_given_back() -> None:
    """Somebody who still sees it saved may delete it: so it must not become Active again."""
    saved = written(decided(releasing(), saved=SavedSeen(NEW)))
    failing = failure("Save", count=9)
    plan = decided(releasing(saved), pod=full(restarts=1), failure=failing)
    assert plan == Wait("because", timedelta(seconds=5))


FAILED = Release(
    epoch=2,
    cause="released",
    attempts=3,
    failed_at=NOW,
    next_try_at=NOW + timedelta(minutes=1),
    last_error="full",
    asked=True,
)


def failed(past: Release = FAILED, **changes: Any) -> ClaimSeen:
    state = status(release=past, detail="the files are not saved: full")
    return claim(P.RELEASE_FAILED, intent=WARM, status=state, **changes)


def stays(of: ClaimSeen, **changes: Any) -> Seen:
    return seen(of, **{"workload": KEEPING, "pod": full(), **changes})


def test_a_failed_release_waits_for_its_time() -> None:
    """Although it was asked for: that is why it failed. No longer than the longest wait."""
    waiting = Wait("the files are not saved: full", timedelta(minutes=1))
    assert decide(stays(failed())) == waiting
    assert decide(stays(failed(release=True))) == waiting
    early = stays(failed(), now=NOW - timedelta(days=1))
    assert decide(early) == Wait("the files are not saved: full", DELAYS[-1])


def again(plan: Plan, reason: str) -> Release:
    assert isinstance(plan, WriteStatus) and plan.reason == reason, plan
    assert plan.status.phase == P.RELEASING
    assert plan.status.release is not None
    return plan.status.release


def test_another_try_is_another_round() -> None:
    """When it is time, when asked for, when the Pod is going, and when nobody said when."""
    soon = timedelta(minutes=1)
    cases = [
        stays(failed(), now=NOW + soon),
        stays(failed(retry=2)),
        stays(failed(msgspec.structs.replace(FAILED, asked=False), release=True)),
        stays(failed(msgspec.structs.replace(FAILED, asked=False), deleting=True)),
        stays(failed(), pod=full(terminating=True, grace=30)),
        stays(failed(msgspec.structs.replace(FAILED, next_try_at=None))),
    ]
    for case in cases:
        release = again(decide(case), "Retrying")
        assert (release.epoch, release.attempts, release.cause) == (3, 3, "released")
    assert isinstance(decide(stays(failed(retry=1))), Wait)  # that try is over


def test_force_drops_what_cannot_be_saved() -> None:
    """Whoever forces was told what is lost."""
    release = again(decide(stays(failed(force=True))), "Forced")
    assert (release.drop, release.cause) == (True, "released; by force")


@pytest.mark.parametrize(
    "pod", [None, full(claim=ClaimRef("x", "y")), full(ended="Failed: Evicted")]
)
def test_a_failed_release_whose_instance_is_gone_is_over(pod: object) -> None:
    """There is nothing left to wait for."""
    release = again(decide(stays(failed(), pod=pod)), "InstanceLost")
    assert release.cause.startswith("released; instance warm-1 ")


# Claimed again


def test_who_claims_again_gets_the_instance_back() -> None:
    """Thawed under a number of its own, then Active, with nothing moved; source stays."""
    wish = failed(again=3)
    assert decide(stays(wish)) == Do((Thaw(full(), 3),))
    plan = decide(stays(wish, thawed=True))
    assert isinstance(plan, WriteStatus) and plan.reason == "ClaimedAgain"
    state = plan.status
    assert (state.phase, state.detail, state.source) == (P.ACTIVE, "", Source.POOL_DATA)
    assert state.release == Release(epoch=3)
    assert state.snapshot == SnapshotRefs(base=D, restored=D)
    bare = claim(
        P.RELEASE_FAILED, intent=WARM, status=status(release=FAILED, snapshot=None), again=3
    )
    assert written(decide(stays(bare, thawed=True))).snapshot is None


def test_who_gets_back_an_instance_that_is_frozen_is_told_so() -> None:
    """Also if its disk filled up since: its agent is asked first, as long as it is time."""
    wish, frozen = failed(again=3), full(ready=False, agent_ready=False)
    due, told = UsageSeen(timedelta(0)), UsageSeen(timedelta(seconds=5), "disk")
    plan = decide(stays(wish, pod=frozen, thawed=True, usage=due))
    assert plan == Do((LookAtUsage(frozen, 1),))
    plan = decide(stays(wish, pod=frozen, thawed=True, usage=told))
    assert isinstance(plan, WriteStatus) and plan.reason == "ClaimedAgain"
    assert is_true(plan.status.conditions, "DiskFull")
    assert plan.status.detail.startswith("its disk of 1 GiB is full")
    plan = decide(stays(wish, pod=frozen, thawed=True, usage=due, workload=None))
    assert isinstance(plan, WriteStatus) and plan.status.detail == "the instance is not ready"


def test_a_wish_that_was_met_or_overtaken_is_no_wish() -> None:
    """An older round's; one that was released again since; one whose Pod is going."""
    assert isinstance(decide(stays(failed(again=2))), Wait)
    later = stays(failed(again=3, release=True), now=NOW + timedelta(minutes=1))
    assert again(decide(later), "Retrying").epoch == 4
    going = stays(failed(again=3), pod=full(terminating=True, grace=30))
    assert again(decide(going), "Retrying").epoch == 4


def test_an_agent_that_cannot_be_reached_is_asked_again() -> None:
    """The instance is not handed over before it runs."""
    plan = decide(stays(failed(again=3), failure=failure("Thaw")))
    assert plan == Wait("because", timedelta(seconds=5))


# Released


def test_a_released_claim_may_have_its_time() -> None:
    """`releasedTTLSeconds`: it is removed after it, and not without."""
    over = status(release=Release(epoch=1, released_at=NOW - timedelta(seconds=40)))
    done = claim(P.RELEASED, status=over, finalizers=())
    assert decided(done, pod=None) == Wait("released")
    brief = keeping(idle={"releasedTTLSeconds": 60})
    assert decided(done, pod=None, workload=brief) == Wait("released", timedelta(seconds=20))
    briefer = keeping(idle={"releasedTTLSeconds": 40})
    assert decided(done, pod=None, workload=briefer) == Do((DeleteClaim(),))
    timeless = replace(done, status=status(release=None, phase=P.RELEASED))
    assert decided(timeless, pod=None, workload=brief) == Wait("released")


def test_finalizers_of_others_are_named() -> None:
    """Once, with what had been said before; again when they change."""
    over = status(release=Release(epoch=1), detail="released")
    done = claim(P.RELEASED, status=over, finalizers=("example.com/x",), deleting=True)
    plan = decided(done, pod=None)
    assert isinstance(plan, WriteStatus)
    assert plan.status.detail.startswith("released; its Claim is deleted and held by the finalizer")
    assert plan.status.detail.count("example.com/x") == 1
    told = replace(done, status=plan.status)
    assert decided(told, pod=None) == Wait(plan.status.detail)
    other = decided(replace(told, finalizers=("example.com/y",)), pod=None)
    assert isinstance(other, WriteStatus)
    assert "example.com/x" not in other.status.detail
    assert decided(replace(told, finalizers=()), pod=None) == Wait("released")


def test_every_phase_written_is_an_edge_of_the_table() -> None:
    """With files, rounds and wishes as well."""
    pods = [None, full(), full(ready=False), full(terminating=True, grace=9), full(ended="x")]
    for phase in P:
        for pod in pods:
            for wish in ({}, {"force": True}, {"again": 9}, {"retry": 1}, {"deleting": True}):
                for saved in (None, SavedSeen(NEW)):
                    one = claim(phase, intent=WARM, status=USED, **wish)
                    plan = decided(one, pod=pod, saved=saved, stored=D, thawed=True)
                    if isinstance(plan, WriteStatus):
                        assert CLAIM.allows(phase, plan.status.phase)
                        assert plan.status != one.status
