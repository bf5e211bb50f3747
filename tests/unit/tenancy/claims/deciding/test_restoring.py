"""How a tenant's files come back, branch by branch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from boilerhouse.core.condition import find
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.tenancy.claims.decide import ATTEMPTS, decide, error_reason
from boilerhouse.tenancy.claims.deciding.obtaining import LOOK_AGAIN, LOOK_SOON
from boilerhouse.tenancy.claims.deciding.restoring import corrupt_message, unfit_message
from boilerhouse.tenancy.claims.intent import Intent, cold
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, SnapshotRefs, Source
from boilerhouse.tenancy.claims.seen import (
    BindPod,
    ClaimSeen,
    CreatePod,
    DeletePod,
    LookAtUsage,
    LookForRival,
    LookUpPrevious,
    LookUpSnapshot,
    Plan,
    Restore,
    RunHook,
    Seen,
    UsageSeen,
    WriteIntent,
)
from boilerhouse.tenancy.instances.seen import RestoredSeen
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from tests.unit.tenancy.claims.views import WARM, claim, failure, full, keeping, seen, warm

P = ClaimPhase
COLD = Intent("inst-alice-web-abc")
D = "d" * 64
OLD = "e" * 64
KEEPING = keeping()
WANTED = ClaimStatus(observed_generation=1, snapshot=SnapshotRefs(base=D, restored=D))
HOOKED = {"postRestore": {"command": ["/bin/warm-up"], "timeoutSeconds": 7}}


def looking(of: ClaimSeen, **changes: Any) -> Seen:
    return seen(of, **{"workload": KEEPING, **changes})


def wanting(**changes: Any) -> ClaimSeen:
    return claim(**{"intent": WARM, "status": WANTED, **changes})


def filled(**changes: Any) -> Any:
    return full(restored=RestoredSeen(D, "c0"), **changes)


def written(plan: Plan) -> ClaimStatus:
    assert isinstance(plan, WriteStatus), plan
    return plan.status


# Is there anything?


def test_the_look_up_is_beside_the_bind() -> None:
    """A warm claim does not wait for it, and it is asked once."""
    named = claim(intent=WARM)
    pod = warm(overlays=True)
    assert decide(looking(named, pod=pod, sole=False)) == Do(
        (BindPod(pod), LookForRival(), LookUpSnapshot())
    )
    assert decide(looking(named, pod=pod)) == Do((BindPod(pod), LookUpSnapshot()))
    assert decide(looking(named, pod=pod, stored="")) == Do((BindPod(pod),))


def test_workloads_without_files_look_up_nothing() -> None:
    """They work without a helper."""
    assert decide(seen(claim(intent=WARM), pod=warm())) == Do((BindPod(warm()),))


def test_nothing_becomes_active_before_it_was_looked_up() -> None:
    """Not even a Pod that is ready: beside the look for rivals if that is missing too."""
    assert decide(looking(claim(intent=WARM), pod=full())) == Do((LookUpSnapshot(),))
    plan = decide(looking(claim(intent=WARM), pod=full(), sole=False))
    assert plan == Do((LookForRival(), LookUpSnapshot()))


def test_a_helper_that_is_away_is_an_error_after_a_while() -> None:
    """Never an empty instance."""
    away = failure("LookUpSnapshot", count=ATTEMPTS)
    plan = decide(looking(claim(intent=WARM), pod=full(), failure=away))
    assert written(plan).phase == P.ERROR
    assert error_reason(written(plan)) == "SnapshotsUnavailable"


def test_a_claim_that_waits_for_the_helper_says_so() -> None:
    """From the first failure on, and once; in Error its detail stays what it is."""
    away = replace(failure("LookUpSnapshot"), why="LookUpSnapshot: it does not run")
    words = "waiting for the snapshot helper, which must say whether files are stored:"
    for pod in (None, warm(overlays=True), full()):
        named = claim(intent=WARM if pod else COLD)
        plan = decide(looking(named, pod=pod, failure=away))
        status = written(plan)
        assert (status.phase, status.detail) == (P.PENDING, f"{words} it does not run")
        assert isinstance(plan, WriteStatus) and plan.reason == "SnapshotsUnavailable"
        told = decide(looking(replace(named, status=status), pod=pod, failure=away))
        assert told == Wait(away.why, away.due_in)
    failed = ClaimStatus(observed_generation=1, detail="no")
    in_error = claim(P.ERROR, intent=WARM, status=failed)
    assert decide(looking(in_error, pod=full(), failure=away)) == Wait(away.why, away.due_in)


def test_resume_false_does_not_wait_for_the_helper() -> None:
    """It starts clean whatever is stored: asked once, and what it may replace stays open."""
    clean = claim(intent=WARM, resume=False)
    assert decide(looking(clean, pod=full())) == Do((LookUpSnapshot(must=False),))
    status = written(decide(looking(clean, pod=full(), unanswered=True)))
    assert (status.phase, status.source, status.snapshot) == (P.ACTIVE, Source.POOL, None)
    cold_one = claim(intent=COLD, resume=False)
    assert decide(looking(cold_one, unanswered=True)) == Do((CreatePod(COLD.pod),))
    # Who wants its files has to wait, whatever was not answered.
    plan = decide(looking(claim(intent=WARM), pod=full(), unanswered=True))
    assert plan == Do((LookUpSnapshot(),))


def test_resume_false_notes_that_nothing_was_stored() -> None:
    """Which is not the same as not to know."""
    clean = claim(intent=WARM, resume=False)
    status = written(decide(looking(clean, pod=full(), stored="")))
    assert status.snapshot == SnapshotRefs()


def test_without_a_snapshot_the_claim_is_active_as_it_is() -> None:
    """No write more, and nothing said about files."""
    status = written(decide(looking(claim(intent=WARM), pod=full(), stored="")))
    assert (status.phase, status.source, status.snapshot) == (P.ACTIVE, Source.POOL, None)


def test_resume_false_starts_clean_and_may_replace_what_is_stored() -> None:
    """The stored version is its base, and is not restored."""
    clean = claim(intent=WARM, resume=False)
    status = written(decide(looking(clean, pod=full(), stored=D)))
    assert (status.phase, status.source) == (P.ACTIVE, Source.POOL)
    assert status.snapshot == SnapshotRefs(base=D)


def test_what_is_restored_is_written_down_first() -> None:
    """Everybody then restores the same, whenever they looked; in Error the phase stays."""
    for phase in (P.PENDING, P.ERROR):
        plan = decide(looking(claim(phase, intent=WARM), pod=full(), stored=D))
        status = written(plan)
        assert (status.phase, status.snapshot) == (phase, SnapshotRefs(base=D, restored=D))


def test_what_is_written_down_counts_and_not_what_was_found() -> None:
    """Another process looked at another moment."""
    plan = decide(looking(wanting(), pod=full(), stored=""))
    assert plan == Do((Restore(full(), D, "restart"),))


# Cold


def test_a_cold_pod_is_made_after_the_look_up() -> None:
    """It must be told at birth that it waits, and what for is written down while it starts."""
    named = claim(intent=COLD)
    assert decide(looking(named)) == Do((LookUpSnapshot(),))
    assert decide(looking(named, sole=False)) == Do((LookForRival(), LookUpSnapshot()))
    assert decide(looking(named, stored="")) == Do((CreatePod(COLD.pod),))
    assert decide(looking(named, stored=D)) == Do((CreatePod(COLD.pod, D),))
    known = claim(intent=COLD, status=WANTED)
    assert decide(looking(known)) == Do((CreatePod(COLD.pod, D),))


def test_a_cold_pod_that_waits_is_filled_as_soon_as_its_agent_runs() -> None:
    """Its tenant's process does not run yet."""
    mine = claim(intent=Intent(COLD.pod, "pod-1"), status=WANTED)
    waiting = full(name=COLD.pod, source="cold", awaits=D, ready=False, tenant_runs=False)
    for not_yet in (replace(waiting, agent_runs=False), replace(waiting, ip="")):
        assert decide(looking(mine, pod=not_yet)) == Wait("the instance is starting", LOOK_SOON)
    unwritten = claim(intent=Intent(COLD.pod, "pod-1"))
    for any_time in (replace(waiting, agent_runs=False), waiting):  # and before anything is done
        plan = decide(looking(unwritten, pod=any_time, stored=D))
        assert written(plan).snapshot == SnapshotRefs(D, D)
    assert decide(looking(mine, pod=waiting)) == Do((Restore(waiting, D, "cold"),))
    ready = replace(waiting, ready=True, restored=RestoredSeen(D))
    status = written(decide(looking(mine, pod=ready)))
    assert (status.phase, status.source) == (P.ACTIVE, Source.COLD_DATA)


def test_a_pod_that_would_wait_for_ever_is_given_up() -> None:
    """It was born to wait for files that nobody wants any more."""
    plan = decide(looking(claim(intent=WARM), pod=full(awaits=D), stored=""))
    assert plan == WriteIntent(cold("alice", "web", "claim-1", "7"))


# Warm


def test_a_warm_pod_is_filled_and_begins_anew() -> None:
    """Ready counts only of another container than ran before."""
    assert decide(looking(wanting(), pod=full())) == Do((Restore(full(), D, "restart"),))
    before = full(restored=RestoredSeen(D, "c1"))
    assert decide(looking(wanting(), pod=before)) == Wait("the instance is starting", LOOK_AGAIN)
    crashing = replace(before, trouble="main: CrashLoopBackOff")
    assert written(decide(looking(wanting(), pod=crashing))).detail == crashing.trouble
    status = written(decide(looking(wanting(), pod=filled(restarts=1))))
    assert (status.phase, status.source) == (P.ACTIVE, Source.POOL_DATA)
    assert status.snapshot == SnapshotRefs(base=D, restored=D)
    told = find(status.conditions, "DataRestored")
    assert told is not None and (told.reason, told.message) == ("Restored", f"version {D}")


def test_what_had_no_place_is_told() -> None:
    """A workload that has lost a directory since."""
    plan = decide(looking(wanting(), pod=filled(), skipped=("old/a", "old/b")))
    told = find(written(plan).conditions, "DataRestored")
    assert told is not None and told.reason == "RestoredInPart"
    assert told.message.endswith("old/a, old/b")


def test_live_leaves_the_process_running() -> None:
    """`filesystem.restore: live`; a Pod that has crashed before will do as well."""
    live = keeping(filesystem={"overlayDirs": ["/data"], "restore": "live"})
    pod = full(restarts=2, crashed=True)
    plan = decide(looking(wanting(), workload=live, pod=pod))
    assert plan == Do((Restore(pod, D, "live"),))


def test_a_restore_under_way_is_waited_for() -> None:
    """It is not started twice."""
    plan = decide(looking(wanting(), pod=full(), busy=frozenset({"Restore"})))
    assert written(plan).detail == "the tenant's files are being restored"


def test_a_restore_that_is_tried_again_says_why() -> None:
    """While it waits and while it runs: the same words. In Error it stays one until it works."""
    failing = replace(failure("Restore", count=3), why="Restore: no answer")
    words = "the tenant's files are not restored yet, and it is tried again: no answer"
    status = written(decide(looking(wanting(), pod=full(), failure=failing)))
    assert (status.phase, status.detail) == (P.PENDING, words)
    told = claim(intent=WARM, status=status)
    at_it = {"pod": full(), "failure": failing, "busy": frozenset({"Restore"})}
    assert decide(looking(told, **at_it)) == Wait(words, LOOK_AGAIN)
    in_error = claim(P.ERROR, intent=WARM, status=status)
    assert decide(looking(in_error, **at_it)) == Wait(words, LOOK_AGAIN)
    again = written(decide(looking(in_error, **(at_it | {"failure": None}))))
    assert again.phase == P.PENDING  # somebody has asked for another try


def test_a_pod_that_began_anew_with_its_node_takes_files() -> None:
    """A restart that was not the program's own makes a warm Pod no worse."""
    pod = full(restarts=1)
    assert decide(looking(wanting(), pod=pod)) == Do((Restore(pod, D, "restart"),))


def test_a_pod_that_crashed_before_its_files_came_is_given_up() -> None:
    """Bound already: the CAS makes it a stray. Not bound yet: it is deleted."""
    plan = decide(looking(wanting(), pod=full(restarts=1, crashed=True)))
    assert plan == WriteIntent(cold("alice", "web", "claim-1", "7"))
    plan = decide(looking(wanting(), pod=warm(restarts=1, crashed=True)))
    assert isinstance(plan, Do)
    assert [type(step) for step in plan.steps] == [DeletePod]


def test_a_pod_with_other_files_is_given_up() -> None:
    """Only the version that is written down becomes Active."""
    other = full(restored=RestoredSeen(OLD, "c0"))
    plan = decide(looking(wanting(), pod=other))
    assert plan == WriteIntent(cold("alice", "web", "claim-1", "7"))


def test_a_ready_pod_without_its_files_is_not_active() -> None:
    """Its agent has just gone: it is waited for."""
    plan = decide(looking(wanting(), pod=full(agent_runs=False)))
    assert plan == Wait("the instance is starting", LOOK_AGAIN)


# Failures


def test_a_restore_that_keeps_failing_is_an_error() -> None:
    """Tried ten times, and further on in Error; never Active without."""
    failing = failure("Restore", count=ATTEMPTS, due=0)
    status = written(decide(looking(wanting(), pod=full(), failure=failing)))
    assert (status.phase, error_reason(status)) == (P.ERROR, "RestoreFails")
    told = claim(P.ERROR, intent=WARM, status=status)
    assert decide(looking(told, pod=full(), failure=failing)) == Do(
        (Restore(full(), D, "restart"),)
    )


def test_a_damaged_version_is_an_error_that_names_it() -> None:
    """And says what can be done."""
    words = corrupt_message(D, "bad hash")
    assert D in words and "boilerhouse.dev/restore-previous=true" in words
    assert "release the claim, restore another version" in words
    ways_out = words.partition("): ")[2]
    assert unfit_message(D, "no room").endswith(f"cannot be restored (no room): {ways_out}")
    refused = replace(failure("Restore", refused=True), why=words)
    status = written(decide(looking(wanting(), pod=full(), corrupt=D, failure=refused)))
    assert (status.phase, status.detail) == (P.ERROR, words)


def test_an_older_version_is_restored_only_if_asked() -> None:
    """What the instance may replace stays: the damaged one."""
    asked = wanting(restore_previous=True)
    plan = decide(looking(asked, pod=full(), corrupt=D))
    assert plan == Do((LookUpPrevious(D),))
    plan = decide(looking(asked, pod=full(), corrupt=D, previous=OLD))
    assert written(plan).snapshot == SnapshotRefs(base=D, restored=OLD)
    assert isinstance(plan, WriteStatus) and plan.reason == "RestorePrevious"
    # Another one than is wanted is damaged: no matter.
    plan = decide(looking(asked, pod=full(), corrupt=OLD))
    assert plan == Do((Restore(full(), D, "restart"),))


@pytest.mark.parametrize("resume", [True, False])
def test_a_pod_of_an_older_spec_is_given_up_whatever_became_of_its_files(resume: bool) -> None:
    """Nobody has used it, and what was restored is still stored: it comes back in the next Pod."""
    hooked = replace(keeping(hooks=HOOKED), template="t2")
    for pod in (full(), filled(), filled(ready=False), full(restored=RestoredSeen(D, "c1"))):
        plan = decide(looking(wanting(resume=resume), workload=hooked, pod=pod))
        assert isinstance(plan, WriteIntent), pod
        assert plan.intent is not None and plan.intent.pod != pod.name
    named = wanting(intent=COLD, resume=resume)
    assert decide(looking(named, workload=hooked)) == Do((CreatePod(COLD.pod, D),))


# Hooks


def test_the_hook_runs_once_ready_and_before_active() -> None:
    """Only where files came back."""
    hooked = keeping(hooks=HOOKED)
    plan = decide(looking(wanting(), workload=hooked, pod=filled()))
    run = RunHook(filled(), "postRestore", ("/bin/warm-up",), timedelta(seconds=7), True, D)
    assert plan == Do((run,))
    plan = decide(looking(wanting(), workload=hooked, pod=filled(), busy=frozenset({"RunHook"})))
    assert written(plan).detail == "its hook runs"
    failed: dict[str, Any] = {"busy": frozenset({"RunHook"}), "failure": failure("RunHook")}
    plan = decide(looking(wanting(), workload=hooked, pod=filled(), **failed))
    assert written(plan).detail == "a hook failed, and is run again: because"
    plan = decide(looking(wanting(), workload=hooked, pod=filled(), hooked=True))
    assert written(plan).phase == P.ACTIVE
    plan = decide(looking(claim(intent=WARM), workload=hooked, pod=full(), stored=""))
    assert written(plan).phase == P.ACTIVE


@pytest.mark.parametrize("policy", ["fail", "continue"])
def test_the_policy_of_a_hook_goes_with_it(policy: str) -> None:
    """Whoever runs it knows whether its failure counts."""
    hooks = {"postRestore": HOOKED["postRestore"] | {"onFailure": policy}}
    plan = decide(looking(wanting(), workload=keeping(hooks=hooks), pod=filled()))
    assert isinstance(plan, Do)
    [run] = plan.steps
    assert isinstance(run, RunHook) and run.must == (policy == "fail")


def test_what_is_bound_goes_on_without_its_workload() -> None:
    """By what the Pod is; its workload was removed by force."""
    gone = looking(wanting(), workload=None, pod=full())
    assert decide(gone) == Do((Restore(full(), D, "restart"),))
    assert written(decide(replace(gone, pod=filled()))).phase == P.ACTIVE


def test_a_workload_that_is_not_ready_is_not_asked_for_files() -> None:
    """The claim waits for it first."""
    creating = replace(KEEPING, phase=WorkloadPhase.CREATING)
    plan = decide(looking(claim(intent=COLD), workload=creating))
    assert written(plan).detail == "workload web is being prepared"


def test_a_refusal_is_recovered_from() -> None:
    """Error, then the files are in: Pending, then Active."""
    told = claim(P.ERROR, intent=WARM, status=msgspec.structs.replace(WANTED, detail="no"))
    assert written(decide(looking(told, pod=filled()))).phase == P.PENDING


def test_what_is_restored_above_its_disk_is_active_though_it_is_frozen() -> None:
    """Its agent is asked why it is not ready, and who waits for it is not kept waiting."""
    frozen = filled(ready=False, agent_ready=False)
    due, later = UsageSeen(timedelta(0)), UsageSeen(timedelta(seconds=5), "")
    assert decide(looking(wanting(), pod=frozen, usage=due)) == Do((LookAtUsage(frozen, 1),))
    assert isinstance(decide(looking(wanting(), pod=frozen, usage=later)), Wait)
    plan = decide(looking(wanting(), pod=frozen, workload=None, usage=due))
    assert isinstance(plan, Wait)
    plan = decide(looking(wanting(), pod=frozen, usage=replace(later, full="disk")))
    assert isinstance(plan, WriteStatus) and plan.status.phase == P.ACTIVE
    assert plan.status.detail.startswith("its disk of 1 GiB is full")
