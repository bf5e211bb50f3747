"""What is seen of a Pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.tenancy.instances.pods import crashes, instance, restarts_of
from boilerhouse.tenancy.instances.seen import ClaimRef, InstanceSeen

Body = dict[str, Any]


def seen(
    metadata: Body | None = None, status: Body | None = None, spec: Body | None = None
) -> InstanceSeen:
    return instance(a_pod(metadata, status, spec))


def a_pod(
    metadata: Body | None = None, status: Body | None = None, spec: Body | None = None
) -> Pod:
    base = {
        "name": "inst-x",
        "uid": "u",
        "resourceVersion": "5",
        "creationTimestamp": "2026-05-01T12:00:00Z",
    }
    body = {"metadata": base | (metadata or {}), "status": status or {}, "spec": spec or {}}
    return msgspec.convert(body, Pod)


def waiting(name: str, reason: str, message: str = "", **more: Any) -> Body:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, **more}


def condition(name: str, status: str, **more: str) -> Body:
    return {"type": name, "status": status, **more}


UP = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "conditions": [condition("Ready", "True", lastTransitionTime="2026-05-01T12:00:05Z")],
}


def test_a_pod_that_is_up_is_usable() -> None:
    """Running, ready, reachable, staying."""
    assert seen(status=UP).usable
    assert not seen({"deletionTimestamp": "2026-05-01T12:00:00Z"}, UP).usable
    assert not seen(status={**UP, "podIP": ""}).usable
    assert not seen(status={**UP, "phase": "Pending"}).usable
    assert not seen(status={**UP, "conditions": []}).usable


def test_labels_and_annotations() -> None:
    """Whose it is, what it was made of."""
    found = seen(
        {
            "labels": {
                "boilerhouse.dev/workload": "web",
                "boilerhouse.dev/template": "t1",
                "boilerhouse.dev/pool": "warm",
                "boilerhouse.dev/pool-status": "ready",
            },
            "annotations": {
                "boilerhouse.dev/claim": "c/u",
                "boilerhouse.dev/tenant-id": "org:acme",
                "boilerhouse.dev/source": "pool",
            },
        }
    )
    assert (found.workload, found.template, found.pool, found.pool_status) == (
        "web",
        "t1",
        "warm",
        "ready",
    )
    assert (found.claim, found.tenant, found.source) == (ClaimRef("c", "u"), "org:acme", "pool")


def test_a_mangled_claim_is_somebody_elses() -> None:
    """It matches no UID."""
    found = seen({"annotations": {"boilerhouse.dev/claim": "what"}})
    assert found.claim == ClaimRef("what", "")


@pytest.mark.parametrize(
    ("annotation", "port"),
    [("", 8080), ("8080:40001", 40001), ("9090:1,8080:2", 2), ("9090:1", 8080), ("8080:x", 8080)],
)
def test_the_port_is_the_first_of_the_tenants_container(annotation: str, port: int) -> None:
    """Unless the node says that it is reached at another."""
    spec = {
        "containers": [
            {"name": "sidecar", "ports": [{"containerPort": 1}]},
            {"name": "tenant", "ports": [{"containerPort": 8080}, {"containerPort": 9090}]},
        ]
    }
    assert seen({"annotations": {"boilerhouse.dev/ports": annotation}}, spec=spec).port == port
    assert seen().port == 0


def test_a_pod_that_has_ended_says_why() -> None:
    """An eviction, for one."""
    status = {"phase": "Failed", "reason": "Evicted", "message": "disk"}
    assert seen(status=status).ended == "Failed: Evicted: disk"
    assert seen(status=UP).ended == ""


def test_the_schedulers_words() -> None:
    """As it said them."""
    status = {"conditions": [condition("PodScheduled", "False", message="0/1 nodes")]}
    assert seen(status=status).unschedulable == "0/1 nodes"
    short = {"conditions": [condition("PodScheduled", "False", reason="Unschedulable")]}
    assert seen(status=short).unschedulable == "Unschedulable"
    assert seen(status={"conditions": [condition("PodScheduled", "True")]}).unschedulable == ""


def test_image_failures_are_told_from_other_trouble() -> None:
    """Init containers count: the agent's image may fail, too."""
    status = {"initContainerStatuses": [waiting("agent", "ErrImagePull", "no such host")]}
    found = seen(status=status)
    assert found.image_failure == "agent: ErrImagePull: no such host"
    assert found.trouble == ""
    assert seen(status={"containerStatuses": [waiting("tenant", "PodInitializing")]}).trouble == ""


def test_crash_loops_are_trouble() -> None:
    """While it waits for the next start, and after it."""
    loop = {"containerStatuses": [waiting("tenant", "CrashLoopBackOff", "back-off")]}
    assert seen(status=loop).trouble == "tenant: CrashLoopBackOff: back-off"
    again = {
        "containerStatuses": [
            {
                "name": "tenant",
                "ready": False,
                "restartCount": 3,
                "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
            }
        ]
    }
    found = seen(status=again)
    assert found.trouble == "crashed 3 times: exit code 1"
    assert found.restarts == 3


def ended(code: int, reason: str, **more: Any) -> Body:
    return {"terminated": {"exitCode": code, "reason": reason, **more}}


LOOP: Body = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("count", "state", "last", "words"),
    [
        (2, LOOP, ended(7, "Error"), "crashed 3 times: exit code 7"),
        (1, {"running": {}}, ended(0, "Completed"), "exited 1 time: exit code 0"),
        (0, ended(137, "OOMKilled"), {}, "crashed 1 time: exit code 137: OOMKilled"),
        (
            0,
            LOOP,
            ended(128, "StartError", message="no such file"),
            "crashed 1 time: exit code 128: StartError: no such file",
        ),
        (4, {"running": {}}, ended(255, "Unknown"), ""),  # the node went down with it
        (0, {"running": {}}, {}, ""),
    ],
)  # fmt: skip
def test_crashes_are_counted(count: int, state: Body, last: Body, words: str) -> None:
    """With the code and what else kubelet said of the last one."""
    tenant = {"name": "tenant", "restartCount": count, "state": state, "lastState": last}
    found = a_pod(status={"phase": "Running", "containerStatuses": [tenant]})
    assert crashes(found) == words
    assert instance(found).backing_off is ("waiting" in state)
    assert crashes(a_pod(status={})) == ""


def test_the_restart_that_brings_the_files_is_no_crash() -> None:
    """The annotation names the container that was ended for it; a later crash is one."""
    noted = {"annotations": {"boilerhouse.dev/restored": "sha256:abc/one"}}
    ours = ended(137, "Error", containerID="one")
    tenant: Body = {"name": "tenant", "restartCount": 0, "containerID": "one", "state": ours}
    between = a_pod(noted, {"phase": "Running", "containerStatuses": [tenant]})
    again = tenant | {
        "restartCount": 1, "containerID": "two", "state": {"running": {}}, "lastState": ours,
    }  # fmt: skip
    revived = a_pod(noted, {"phase": "Running", "containerStatuses": [again]})
    for found in (between, revived):
        assert (crashes(found), restarts_of(found)) == ("", 0)
        assert instance(found).trouble == ""
    died = again | {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ended(7, "Error", containerID="two"),
    }
    crashed = a_pod(noted, {"phase": "Running", "containerStatuses": [died]})
    assert instance(crashed).trouble == crashes(crashed) == "crashed 1 time: exit code 7"
    assert restarts_of(a_pod(status={"containerStatuses": [again]})) == 1


@pytest.mark.parametrize(
    ("probe", "how"),
    [
        ({"tcpSocket": {"port": 8099}}, "tcp 8099"),
        ({"httpGet": {"port": "web", "path": "/health"}}, "http web/health"),
        ({"exec": {"command": ["true"]}}, "exec"),
    ],
)
def test_a_pod_whose_containers_run_waits_for_its_probe(probe: Body, how: str) -> None:
    """Which one is told; nothing if it has none, or is ready, or does not run yet."""
    spec: Body = {"containers": [{"name": "other"}, {"name": "tenant", "readinessProbe": probe}]}
    runs: Body = {"name": "tenant", "state": {"running": {}}}
    status = {**UP, "conditions": [], "containerStatuses": [runs]}
    assert seen(status=status, spec=spec).unready == (
        f"its readiness probe ({how}) has not succeeded yet"
    )
    assert seen(status=status).unready == ""
    assert seen(status={**UP, "containerStatuses": [runs]}, spec=spec).unready == ""
    assert seen(status=status | {"phase": "Pending"}, spec=spec).unready == ""
    starts = [waiting("tenant", "ContainerCreating")]
    assert seen(status=status | {"containerStatuses": starts}, spec=spec).unready == ""


@pytest.mark.parametrize(
    ("restarts", "reason", "crashed"),
    [(0, None, False), (1, "Error", True), (1, "Completed", True), (2, "Unknown", False)],
)
def test_a_program_that_ended_is_told_from_one_that_was_cut_off(
    restarts: int, reason: str | None, crashed: bool
) -> None:
    """What went down with its node has not crashed; what nothing is known of has."""
    last = {} if reason is None else {"terminated": {"exitCode": 255, "reason": reason}}
    state = {"name": "tenant", "restartCount": restarts, "lastState": last}
    assert seen(status={"containerStatuses": [state]}).crashed is crashed
    unknown = {"name": "tenant", "restartCount": 1}
    assert seen(status={"containerStatuses": [unknown]}).crashed


def test_the_lives_of_the_agent_are_told_apart() -> None:
    """Other sidecars and the tenant's own restarts do not count."""
    states = [{"name": "agent", "restartCount": 2}, {"name": "other", "restartCount": 5}]
    found = seen(status={"initContainerStatuses": states})
    assert (found.agent_restarts, found.life) == (2, f"{found.uid}/2")
