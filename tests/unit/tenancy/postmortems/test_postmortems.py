"""What counts as a death, what is kept of it and for how long."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339
from boilerhouse.core.plan import Delete, Wait
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.postmortems.build import ending, of_life, secret
from boilerhouse.tenancy.postmortems.deaths import Death, death_of, may_have_died
from boilerhouse.tenancy.postmortems.decide import Seen, decide
from boilerhouse.tenancy.postmortems.model import KEPT, KEPT_FOR, LOG_BYTES, LOG_LINES, Report

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
CRASH = {"exitCode": 1, "reason": "Error", "finishedAt": rfc3339(LATER)}


def pod(meta: dict[str, Any] | None = None, **status: Any) -> Pod:
    base = {"name": "inst-1", "uid": "pod-1", "annotations": {names.CLAIM: "c/claim-1"}}
    return msgspec.convert({"metadata": base | (meta or {}), "status": status}, Pod)


def crashed(**last: Any) -> Pod:
    one = {
        "name": "tenant",
        "restartCount": 2,
        "state": {"running": {}},
        "lastState": {"terminated": CRASH | last},
    }
    return pod(phase="Running", containerStatuses=[one])


def claim(phase: str = "Active", **meta: Any) -> Claim:
    body = {
        "metadata": {"name": "c", "uid": "claim-1", **meta},
        "spec": {"tenantId": "alice", "workloadRef": "web"},
        "status": {"phase": phase, "claimedAt": rfc3339(NOW)},
    }
    return CLAIMS.decode(msgspec.json.encode(body))


def test_a_program_that_ended_has_died() -> None:
    """Whether it ends, waits or runs again: it is one death."""
    again = death_of(crashed(), claim())
    assert again == Death(f"pod-1/{rfc3339(LATER)}", LATER, "Error", "", 1)
    just = {"name": "tenant", "state": {"terminated": CRASH}}
    assert death_of(pod(phase="Running", containerStatuses=[just]), claim()) == again
    waits = {"name": "tenant", "state": {"waiting": {}}, "lastState": {"terminated": CRASH}}
    assert death_of(pod(phase="Running", containerStatuses=[waits]), claim()) == again


def test_what_nobody_saw_end_has_not_died() -> None:
    """A machine that went down, or we ourselves, cut everything off alike."""
    assert death_of(crashed(reason="Unknown"), claim()) is None
    assert death_of(crashed(finishedAt=None), claim()) is None


def test_what_ended_before_the_claim_is_not_the_tenants() -> None:
    """A warm instance may have had a life before, and a restore begins another."""
    assert death_of(crashed(finishedAt=rfc3339(NOW)), claim()) is None


def test_the_end_that_a_restore_asked_for_is_no_death() -> None:
    """Whatever the clocks say: the annotation names the container that was ended."""
    noted = {names.CLAIM: "c/claim-1", names.RESTORED: "sha256:abc/one"}
    ours = pod({"annotations": noted}, phase="Running", containerStatuses=[
        {"name": "tenant", "restartCount": 1, "state": {"running": {}},
         "lastState": {"terminated": CRASH | {"containerID": "one"}}}
    ])  # fmt: skip
    assert death_of(ours, claim()) is None
    own = crashed(containerID="two")
    own = msgspec.structs.replace(
        own, metadata=msgspec.structs.replace(own.metadata, annotations=noted)
    )
    assert death_of(own, claim()) is not None


@pytest.mark.parametrize("phase", ["Pending", "Releasing", "Released", "Error"])
def test_only_an_active_claim_has_something_to_lose(phase: str) -> None:
    """What ends on its way in or out was meant to."""
    assert death_of(crashed(), claim(phase)) is None
    assert death_of(crashed(), None) is None


def test_a_pod_that_ended_has_died() -> None:
    """Evicted, or done for any other reason."""
    evicted = pod(phase="Failed", reason="Evicted", message="disk")
    assert death_of(evicted, claim()) == Death("pod-1/ended", None, "Evicted", "disk", None)
    done = pod(phase="Succeeded", containerStatuses=crashed_statuses())
    assert death_of(done, claim()) == Death("pod-1/ended", LATER, "Succeeded", "", 1)


def crashed_statuses() -> list[dict[str, Any]]:
    return [{"name": "tenant", "state": {"terminated": CRASH}}]


def test_a_pod_that_somebody_takes_away_has_died() -> None:
    """With grace, and while its claim wants to keep it."""
    going = {"deletionTimestamp": rfc3339(NOW), "deletionGracePeriodSeconds": 30}
    found = death_of(pod(going, phase="Running"), claim())
    assert found is not None and (found.number, found.reason) == ("pod-1/deleted", "Deleted")
    destroyed = going | {"deletionGracePeriodSeconds": 0}
    assert death_of(pod(destroyed, phase="Running"), claim()) is None
    released = claim(annotations={names.RELEASE: "now"})
    assert death_of(pod(going, phase="Running"), released) is None
    deleted = claim(deletionTimestamp=rfc3339(NOW))
    assert death_of(pod(going, phase="Running"), deleted) is None


def test_the_living_are_passed_over() -> None:
    """The cheap question: no claim, or nothing that ever ended."""
    fine = {"name": "tenant", "restartCount": 0, "state": {"running": {}}}
    assert not may_have_died(pod(phase="Running", containerStatuses=[fine]))
    assert not may_have_died(pod({"annotations": {}}, phase="Failed"))
    assert may_have_died(crashed())
    assert may_have_died(pod(phase="Failed"))
    assert death_of(pod(phase="Running"), claim()) is None
    assert death_of(pod(phase="Running", containerStatuses=[fine]), claim()) is None


def test_the_log_is_that_of_the_life_that_ended() -> None:
    """Lines of the lives before and after it are told by their times."""
    log = b"".join(
        b"%sT12:00:%02d.123Z line %d\n" % (b"2026-05-01", second, second) for second in range(5)
    )
    moment = NOW.replace(microsecond=0)
    life = of_life(log, moment + timedelta(seconds=1), moment + timedelta(seconds=3))
    assert life == b"line 1\nline 2\nline 3\n"
    assert of_life(log, None, None).count(b"line") == 5
    assert of_life(b"", None, None) == b""
    progress = b"2026-05-01T12:00:02Z 10%\r 20%\n"
    assert of_life(progress, moment, moment + timedelta(seconds=3)) == b"10%\r 20%\n"


def test_the_end_of_a_log_is_kept_in_whole_lines() -> None:
    """What is short is kept whole; one endless line is cut anywhere."""
    assert ending(b"a\nb\n") == (b"a\nb\n", False)
    kept, cut = ending(b"x" * 100 + b"\n" + b"line\n" * (LOG_BYTES // 5))
    assert cut and len(kept) <= LOG_BYTES and kept.startswith(b"line\n")
    assert ending(b"y" * (LOG_BYTES + 1)) == (b"y" * LOG_BYTES, True)
    assert ending(b"a\n" + b"b\n" * LOG_LINES) == (b"b\n" * LOG_LINES, True)
    assert ending(b"b\n" * LOG_LINES) == (b"b\n" * LOG_LINES, False)


def test_the_secret_is_small_and_says_whose_it_is() -> None:
    """At most 64 KiB with everything; found by tenant and workload."""
    report = Report(
        instance="inst-1",
        tenant_id="alice",
        workload_ref="web",
        claim="c",
        died_at=rfc3339(NOW),
        reason="Error",
        message="m" * 2048,
    )
    built = secret(report, b"z" * LOG_BYTES, "pod-1/1")
    assert built["metadata"]["name"] == "postmortem-inst-1"
    assert built["metadata"]["annotations"][names.TENANT_ID] == "alice"
    size = sum(len(base64.b64decode(value)) for value in built["data"].values())
    assert size <= 64 << 10


def test_five_are_kept_for_seven_days() -> None:
    """The sixth youngest goes at once, any other when its time has come."""
    seen = Seen(NOW, "postmortem-inst-1", "u", "1", NOW - timedelta(days=1), KEPT - 1)
    assert decide(seen) == Wait("it is kept for a while", KEPT_FOR - timedelta(days=1))
    assert decide(replace(seen, younger=KEPT)) == Delete()
    assert decide(replace(seen, died_at=NOW - KEPT_FOR)) == Delete()
