"""What a Pod's status says of its containers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.objects.status import (
    ContainerFacts,
    PodFacts,
    Role,
    Running,
    State,
    Terminated,
    Waiting,
    clearing,
    phase,
    pod_status,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING = Running(NOW)
DONE = Terminated(0, "Completed", NOW, NOW)
FAILED = Terminated(1, "Error", NOW, NOW)


def box(name: str, state: State, role: Role = "main", **more: Any) -> ContainerFacts:
    ran = not isinstance(state, Waiting)
    given = {"container_id": f"boilerhouse://{name}" if ran else "", **more}
    return ContainerFacts(name, "host", role, state, **given)


def up(name: str, role: Role = "main") -> ContainerFacts:
    return box(name, RUNNING, role, started=True, ready=True)


def facts(*containers: ContainerFacts, policy: str = "Always", **more: Any) -> PodFacts:
    return PodFacts("127.0.0.1", NOW, list(containers), policy, **more)


PHASES = [
    ("nothing yet", facts(box("a", Waiting())), "Pending"),
    ("one of two", facts(up("a"), box("b", Waiting())), "Pending"),
    ("all run", facts(up("a"), up("b")), "Running"),
    ("waiting to run again", facts(box("a", Waiting("CrashLoopBackOff"), last=FAILED)), "Running"),
    ("ended, about to run again", facts(box("a", FAILED)), "Running"),
    ("init runs", facts(box("i", RUNNING, "init"), box("a", Waiting())), "Pending"),
    (
        "init failed for good",
        facts(box("i", FAILED, "init", finished=True), box("a", Waiting()), policy="Never"),
        "Failed",
    ),
    ("sidecar not started", facts(box("s", RUNNING, "sidecar"), box("a", Waiting())), "Pending"),
    (
        "sidecar fell while main runs",
        facts(box("s", Waiting("CrashLoopBackOff"), "sidecar", last=FAILED), up("a")),
        "Running",
    ),
    (
        "all done",
        facts(box("a", DONE, finished=True), box("b", DONE, finished=True), policy="Never"),
        "Succeeded",
    ),
    (
        "one of two failed",
        facts(box("a", DONE, finished=True), box("b", FAILED, finished=True), policy="Never"),
        "Failed",
    ),
    (
        "one of two still runs",
        facts(box("a", FAILED, finished=True), up("b"), policy="Never"),
        "Running",
    ),
    ("rejected", facts(box("a", Waiting()), failed=("OutOfcpu", "no room")), "Failed"),
]


@pytest.mark.parametrize(
    ("pod", "expected"), [case[1:] for case in PHASES], ids=[c[0] for c in PHASES]
)
def test_phases(pod: PodFacts, expected: str) -> None:
    """Where in its life a Pod is, by the rules of a real kubelet."""
    assert phase(pod) == expected


def conditions(pod: PodFacts, before: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    status = pod_status(pod, before or {}, NOW)
    return {one["type"]: one for one in status["conditions"]}


def test_ready_needs_every_container_and_sidecar() -> None:
    """The names of those who are not are in the message."""
    side = up("s", "sidecar")
    assert conditions(facts(side, up("a")))["Ready"]["status"] == "True"
    side.ready = False
    found = conditions(facts(side, up("a"), box("b", RUNNING, started=True)))
    assert found["Ready"]["reason"] == "ContainersNotReady"
    assert found["Ready"]["message"] == "containers with unready status: [s b]"
    assert found["ContainersReady"]["status"] == "False"


def test_initialized_waits_for_init_containers() -> None:
    """Init containers must be done, sidecars started; afterwards it stays."""
    found = conditions(facts(box("i", RUNNING, "init"), box("a", Waiting())))
    assert found["Initialized"]["message"] == "containers with incomplete status: [i]"
    done = box("i", DONE, "init", finished=True)
    assert conditions(facts(done, box("a", Waiting())))["Initialized"]["status"] == "True"


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    """lastTransitionTime moves only with the status."""
    before = pod_status(facts(up("a")), {}, NOW)
    later = NOW + timedelta(hours=1)
    again = pod_status(facts(up("a")), before, later)
    assert again == before
    fallen = facts(box("a", FAILED))
    changed = {
        c["type"]: c["lastTransitionTime"] for c in pod_status(fallen, before, later)["conditions"]
    }
    assert changed["Ready"] == "2026-01-01T13:00:00Z"
    assert changed["PodScheduled"] == "2026-01-01T12:00:00Z"


def test_a_container_is_told_whole() -> None:
    """State, last state, count and identity, as kubectl and operators read them."""
    one = up("a")
    one.restart_count, one.image_id = 2, "sha256:x"
    one.last = replace(FAILED, exit_code=137, reason="OOMKilled", signal=9, container_id="b://0")
    (told,) = pod_status(facts(one, ip="127.16.0.1"), {}, NOW)["containerStatuses"]
    assert told == {
        "name": "a",
        "image": "host",
        "imageID": "sha256:x",
        "ready": True,
        "started": True,
        "restartCount": 2,
        "containerID": "boilerhouse://a",
        "state": {"running": {"startedAt": "2026-01-01T12:00:00Z"}},
        "lastState": {
            "terminated": {
                "exitCode": 137,
                "reason": "OOMKilled",
                "signal": 9,
                "containerID": "b://0",
                "startedAt": "2026-01-01T12:00:00Z",
                "finishedAt": "2026-01-01T12:00:00Z",
            }
        },
    }


def test_a_pod_whose_limits_are_not_enforced_says_so() -> None:
    """A condition of its own, with the reason; without limits there is none."""
    found = conditions(facts(up("a"), limits_unenforced="no cgroup"))
    assert found["LimitsEnforced"]["status"] == "False"
    assert found["LimitsEnforced"]["message"] == "no cgroup"
    assert "LimitsEnforced" not in conditions(facts(up("a")))


def test_a_condition_that_is_met_leaves_no_reason_behind() -> None:
    """Conditions are merged one by one: what was said of one that was not met is taken back."""
    unready = pod_status(facts(box("a", RUNNING, started=True)), {}, NOW)
    status = pod_status(facts(up("a")), unready, NOW)
    sent = {one["type"]: one for one in clearing(status, unready)["conditions"]}
    assert sent["Ready"]["status"] == "True"
    assert (sent["Ready"]["reason"], sent["Ready"]["message"]) == (None, None)
    assert "reason" not in sent["PodScheduled"]
    assert clearing(status, status) == status
