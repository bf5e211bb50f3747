"""Idleness, disk use and the node of an Active claim, branch by branch."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.plan import Do, Wait, WriteStatus
from boilerhouse.tenancy.claims.decide import decide
from boilerhouse.tenancy.claims.deciding.status import INSTANCE_READY, is_frozen
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus
from boilerhouse.tenancy.claims.seen import (
    AskChanges,
    ClaimSeen,
    DeletePod,
    DeliverIdentity,
    LookAtUsage,
    NoteActivity,
    Plan,
    UsageSeen,
)
from boilerhouse.tenancy.idle.verdict import ChangesSeen
from tests.unit.tenancy.claims.views import NOW, WARM, claim, failure, full, keeping, seen

P = ClaimPhase
KEEPING = keeping()
LATER = timedelta(seconds=20)


def status_of(plan: Plan) -> ClaimStatus:
    assert isinstance(plan, WriteStatus), plan
    return plan.status


ACTIVE = status_of(decide(seen(claim(intent=WARM), workload=KEEPING, pod=full(), stored="")))
MET = status_of(
    decide(
        seen(
            claim(P.ACTIVE, intent=WARM, status=ACTIVE),
            workload=KEEPING,
            pod=full(),
            delivered=True,
        )
    )
)


def active(status: ClaimStatus = MET, **changes: Any) -> ClaimSeen:
    return claim(P.ACTIVE, intent=WARM, status=status, **changes)


def decided(of: ClaimSeen, *, workload: Any = KEEPING, **changes: Any) -> Plan:
    return decide(seen(of, workload=workload, pod=full(), **changes))


def idling(**idle: Any) -> Any:
    return keeping(idle={"timeoutSeconds": 60, **idle})


# Disk


def disk(full: str | None = "", due: timedelta = LATER) -> UsageSeen:
    return UsageSeen(due, full)


def test_disk_use_is_looked_at_when_it_is_time() -> None:
    """Not before; not of instances without files; not if nothing is known of it here."""
    now = timedelta(0)
    assert decided(active(), usage=disk(None)) == Wait("claim satisfied", LATER)
    assert decided(active(), usage=disk(due=now)) == Do((LookAtUsage(full(), 1),))
    assert decided(active()) == Wait("claim satisfied")
    assert decided(active(), workload=None, usage=disk(due=now)) == Wait("claim satisfied")
    bare = seen(active(), workload=KEEPING, pod=full(overlays=False), usage=disk())
    assert decide(bare) == Wait("claim satisfied")


def test_a_full_disk_is_a_condition_with_the_ways_out() -> None:
    """It stays Active; told once, and taken back when there is room again."""
    unready = full(ready=False, agent_ready=False)
    plan = decide(seen(active(), workload=KEEPING, pod=unready, usage=disk("disk")))
    assert isinstance(plan, WriteStatus) and plan.reason == "DiskFull"
    status = plan.status
    assert status.phase == P.ACTIVE
    for words in ("its disk of 1 GiB is full", "boilerhouse exec", "release", "larger diskGb"):
        assert words in status.detail
    for name, is_so in (("DiskFull", ConditionStatus.TRUE), ("InstanceReady", "False")):
        stated = find(status.conditions, name)
        assert stated is not None
        assert (stated.status, stated.reason, stated.message) == (is_so, "DiskFull", status.detail)
    told = active(status)
    again = decide(seen(told, workload=KEEPING, pod=unready, usage=disk("disk")))
    assert isinstance(again, Wait) and again.why == status.detail
    plan = decided(told, usage=disk())
    assert isinstance(plan, WriteStatus) and plan.reason == "EnoughRoom"
    stated = find(plan.status.conditions, "DiskFull")
    assert stated is not None and stated.status == ConditionStatus.FALSE
    assert plan.status.detail == ""
    assert decided(active(plan.status), usage=disk()) == Wait("claim satisfied", LATER)


def test_too_many_files_have_words_of_their_own() -> None:
    """Also if the workload is gone, whose disk it was."""
    status = status_of(decided(active(), usage=disk("files")))
    assert "as many files and directories as its disk of 1 GiB may hold" in status.detail
    stated = find(status.conditions, "DiskFull")
    assert stated is not None and stated.reason == "TooManyFiles"
    status = status_of(decided(active(), workload=None, usage=disk("disk")))
    assert status.detail.startswith("its disk is full")


def test_a_full_disk_of_the_machine_has_words_of_its_own() -> None:
    """A larger diskGb is no way out of that."""
    status = status_of(decided(active(), usage=disk("machine")))
    stated = find(status.conditions, "DiskFull")
    assert stated is not None and stated.reason == "MachineDiskFull"
    assert status.detail.startswith("the disk of the machine is nearly full")
    assert "boilerhouse exec" in status.detail and "diskGb" not in status.detail


def test_a_used_up_quota_is_told_of_an_instance_that_runs() -> None:
    """It stays ready, and who claims it gets it."""
    plan = decided(active(), usage=disk("quota"))
    assert isinstance(plan, WriteStatus) and plan.reason == "DiskFull"
    status = plan.status
    stated = find(status.conditions, "DiskFull")
    assert stated is not None
    assert (stated.status, stated.reason) == (ConditionStatus.TRUE, "QuotaReached")
    assert status.detail.startswith("the quota of its disk of 1 GiB is used up")
    ready = find(status.conditions, INSTANCE_READY)
    assert ready is not None and ready.status == ConditionStatus.TRUE
    assert not is_frozen(status.conditions) and not is_frozen(MET.conditions)
    assert is_frozen(status_of(decided(active(), usage=disk("disk"))).conditions)
    plan = decided(active(status), usage=disk())
    assert isinstance(plan, WriteStatus) and plan.reason == "EnoughRoom"
    assert not is_frozen(plan.status.conditions)


def test_one_that_runs_above_its_limit_is_not_called_frozen() -> None:
    """As it may for a moment when it starts; not that it has room, either."""
    over = UsageSeen(LATER, "", over=True)
    frozen = status_of(decided(active(), usage=disk("disk")))
    plan = decided(active(frozen), usage=over)
    assert isinstance(plan, WriteStatus) and plan.reason == "OverLimit"
    status = plan.status
    stated, ready = (find(status.conditions, name) for name in ("DiskFull", "InstanceReady"))
    assert stated is not None and ready is not None
    assert (stated.status, stated.reason) == (ConditionStatus.FALSE, "OverLimit")
    assert ready.status == ConditionStatus.TRUE
    assert status.detail == stated.message
    assert "more than its disk of 1 GiB" in status.detail and "in a moment" in status.detail
    for same in (over, disk(None), None):
        assert isinstance(decided(active(status), usage=same), Wait)
    crashed = replace(full(), ready=False, trouble="crashed 2 times: exit code 7")
    plan = decide(seen(active(status), workload=KEEPING, pod=crashed, usage=over))
    assert "exit code 7" in status_of(plan).detail
    room = status_of(decided(active(status), usage=disk()))
    stated = find(room.conditions, "DiskFull")
    assert stated is not None and (stated.reason, room.detail) == ("EnoughRoom", "")
    assert status_of(decided(active(status), usage=disk("disk"))).detail == frozen.detail


def test_files_without_a_name_have_a_way_out_of_their_own() -> None:
    """Said only where much of the disk is taken by them."""
    for short in ("disk", "machine"):
        named = status_of(decided(active(), usage=disk(short)))
        status = status_of(decided(active(), usage=UsageSeen(LATER, short, unlinked=True)))
        assert "/proc/PID/fd/N" in status.detail and "/proc/" not in named.detail


def test_that_there_is_room_again_hides_no_other_trouble() -> None:
    """The detail says what keeps the instance from being used."""
    frozen = status_of(decided(active(), usage=disk("disk")))
    crashed = replace(full(), ready=False, trouble="crashed 2 times: exit code 7")
    plan = decide(seen(active(frozen), workload=KEEPING, pod=crashed, usage=disk()))
    assert "exit code 7" in status_of(plan).detail


def test_a_full_disk_is_remembered_until_its_agent_was_asked() -> None:
    """An operator that has just started knows no more than the status says."""
    for short in ("disk", "files", "machine", "quota"):
        status = status_of(decided(active(), usage=disk(short)))
        plan = decided(active(status), usage=disk(None))
        assert isinstance(plan, Wait)
        plan = decided(active(status))
        assert isinstance(plan, Wait)


# Its node


def test_on_a_cordoned_node_it_is_hibernated() -> None:
    """Whether it is in use or not; detail names the node, and the files are saved."""
    for workload in (KEEPING, idling(action="destroy"), None):
        plan = decided(active(last_activity=NOW), workload=workload, cordoned="n1")
        assert isinstance(plan, WriteStatus) and plan.reason == "NodeCordoned"
        status = plan.status
        assert (status.phase, status.detail) == (P.RELEASING, "the node n1 is cordoned")
        assert status.release is not None
        assert (status.release.epoch, status.release.drop) == (1, False)


def test_without_files_it_leaves_a_cordoned_node_too() -> None:
    """There is nothing to save: the Pod goes, and the claim is Released."""
    bare = full(overlays=False)
    leaves = status_of(decide(seen(active(), pod=bare, cordoned="n1")))
    leaving = claim(P.RELEASING, intent=WARM, status=leaves)
    assert decide(seen(leaving, pod=bare)) == Do((DeletePod(bare, "the node n1 is cordoned"),))
    released = status_of(decide(seen(leaving)))
    assert (released.phase, released.detail) == (P.RELEASED, "the node n1 is cordoned")


def test_what_is_lost_or_asked_to_go_leaves_for_that() -> None:
    """A cordon is not the reason of what happens anyway."""
    plan = decided(active(release=True), cordoned="n1")
    assert isinstance(plan, WriteStatus) and plan.reason == "Releasing"
    plan = decide(seen(active(), workload=KEEPING, pod=full(terminating=True), cordoned="n1"))
    assert isinstance(plan, WriteStatus) and plan.reason == "InstanceLost"


# Idleness


def test_without_a_timeout_nobody_waits() -> None:
    """Nor without a workload."""
    for workload in (KEEPING, None):
        assert decided(active(last_activity=NOW), workload=workload) == Wait("claim satisfied")


def test_the_deadline_is_waited_for() -> None:
    """No scanning: the next look is when it can be over."""
    used = active(last_activity=NOW - timedelta(seconds=25))
    assert decided(used, workload=idling()) == Wait("claim satisfied", timedelta(seconds=60))
    later = seen(used, workload=idling(), pod=full(), now=NOW + timedelta(seconds=50))
    assert decide(later) == Wait("claim satisfied", timedelta(seconds=10))


def idle_at(seconds: int, of: ClaimSeen, workload: Any, **changes: Any) -> Plan:
    now: datetime = NOW + timedelta(seconds=seconds)
    return decide(seen(of, workload=workload, pod=full(), now=now, **changes))


def test_after_the_deadline_it_is_released() -> None:
    """Hibernated, or dropped if the workload says so; detail tells for how long."""
    for action, drop in (("hibernate", False), ("destroy", True)):
        plan = idle_at(61, active(), idling(action=action))
        assert isinstance(plan, WriteStatus) and plan.reason == "Idle"
        assert (plan.status.phase, plan.status.detail) == (P.RELEASING, "idle for 61 s")
        assert plan.status.release is not None and plan.status.release.drop == drop


def test_watched_directories_are_asked_at_the_deadline() -> None:
    """And only then. What cannot be told is not idleness."""
    watching = idling(watchDirs=["/data"])
    assert idle_at(59, active(), watching) == Wait("claim satisfied", timedelta(seconds=1))
    plan = idle_at(61, active(), watching)
    assert isinstance(plan, Do)
    [ask] = plan.steps
    assert isinstance(ask, AskChanges)
    assert (ask.directories, ask.pod) == (("/data",), full())
    unknown = ChangesSeen(NOW + timedelta(seconds=61), trouble="away")
    assert isinstance(idle_at(62, active(), watching, changes=unknown), Wait)
    nothing = ChangesSeen(NOW + timedelta(seconds=61), complete=True)
    assert status_of(idle_at(62, active(), watching, changes=nothing)).phase == P.RELEASING


def test_without_a_time_to_compare_with_one_is_noted() -> None:
    """A clock that was wrong costs one timeout."""
    ahead = NOW + timedelta(days=1)
    status = replace_claimed(ahead)
    assert decided(active(status, last_activity=ahead), workload=idling()) == NoteActivity()


def replace_claimed(at: datetime) -> ClaimStatus:
    return msgspec.structs.replace(MET, claimed_at=at)


def test_what_waits_for_its_identity_can_be_idle() -> None:
    """An agent that does not answer keeps nothing alive."""
    held = active(ACTIVE)
    assert decided(held) == Do((DeliverIdentity("warm-1", "pod-1"),))
    failed = failure("DeliverIdentity")
    assert decided(held, failure=failed) == Wait("because", failed.due_in)
    assert status_of(idle_at(61, held, idling(), failure=failed)).phase == P.RELEASING


def test_the_soonest_of_all_times_counts() -> None:
    """One timer for idleness, disk use and retries."""
    held = active(ACTIVE, last_activity=NOW)
    plan = decided(held, workload=idling(), usage=disk(), failure=failure("DeliverIdentity"))
    assert plan == Wait("because", timedelta(seconds=5))
    plan = decided(active(last_activity=NOW), workload=idling(), usage=disk())
    assert plan == Wait("claim satisfied", LATER)


def test_a_crash_loop_is_not_looked_at_twice() -> None:
    """The condition is written, then it waits."""
    crashing = replace(full(), ready=False, trouble="crashed 2 times: exit code 7")
    plan = decide(seen(active(), workload=KEEPING, pod=crashing))
    again = decide(seen(active(status_of(plan)), workload=KEEPING, pod=crashing))
    assert again == Wait("crashed 2 times: exit code 7")


def test_why_an_instance_cannot_be_used_is_told() -> None:
    """In the detail and the condition, with what to do; looked at again while a probe fails."""
    waits = replace(full(), ready=False, unready="readiness probe failed: connection refused")
    plan = status_of(decide(seen(active(), workload=KEEPING, pod=waits)))
    words = "the instance runs but is not ready: readiness probe failed: connection refused"
    ready = find(plan.conditions, INSTANCE_READY)
    assert ready is not None
    assert (plan.detail, ready.reason, ready.message) == (words, "NotReady", words)
    again = decide(seen(active(plan), workload=KEEPING, pod=waits))
    assert again == Wait(words, timedelta(seconds=5))
    back = status_of(decide(seen(active(plan), workload=KEEPING, pod=full())))
    assert back.detail == ""

    loop = replace(full(), ready=False, trouble="crashed 3 times: exit code 7", backing_off=True)
    told = status_of(decide(seen(active(), workload=KEEPING, pod=loop)))
    assert told.detail == f"{loop.trouble}; see `boilerhouse logs {loop.name} --previous`"
    ready = find(told.conditions, INSTANCE_READY)
    assert ready is not None
    assert ready.reason == "CrashLoopBackOff"
