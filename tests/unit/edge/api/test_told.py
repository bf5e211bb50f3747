"""What is wrong with an instance is told wherever somebody looks."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import EVENTS, PODS
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.kube.wire import Socket
from boilerhouse.tenancy.pools.objects import POOLS
from tests.controllers.operator_fixture import running
from tests.unit.edge.api.conftest import Rest

Body = dict[str, Any]


def deaf(pod: Pod, ip: str, now: str) -> Body:
    """All of it runs, and its probe fails."""
    status = running(pod, ip, now)
    status["conditions"][1]["status"] = "False"
    for container in status["containerStatuses"]:
        container["ready"] = False
    return status


def crashing(pod: Pod, ip: str, now: str) -> Body:
    """Its program ends at once, and its node lets it wait."""
    status = deaf(pod, ip, now)
    ended = {"exitCode": 7, "reason": "Error", "startedAt": now, "finishedAt": now}
    for container in status["containerStatuses"]:
        back_off = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}
        container["state"] = {"waiting": back_off}
        container["lastState"] = {"terminated": ended}
        container["restartCount"] = 2
    return status


async def told_unhealthy(rest: Rest, pod: Pod) -> None:
    """Tell the Event that a kubelet tells."""
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.metadata.namespace,
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
    }
    event = {
        "metadata": {"name": f"{pod.metadata.name}.1"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "Unhealthy",
        "message": "Readiness probe failed: dial tcp 10.0.0.1:8080: connect: connection refused",
    }
    await rest.world.client.create(EVENTS, event)


WORDS = "readiness probe failed: dial tcp 10.0.0.1:8080: connect: connection refused"


@pytest.mark.slow
async def test_a_failing_probe_is_the_claims_detail(rest: Rest) -> None:
    """At first that it is waited for, then in kubelet's words; so does the list of instances."""
    await rest.world.ready_workload()
    rest.world.kubelet.behaviour = deaf
    answer = await rest.claim("ada", params={"wait": "6"})
    assert answer.status_code == 202
    waits = "its readiness probe (tcp 8080) has not succeeded yet"
    assert answer.json()["detail"] == f"the instance runs but is not ready: {waits}"
    (pod,) = await rest.world.pods()
    await told_unhealthy(rest, pod)
    name = answer.json()["claim"]
    found = await rest.world.until(
        rest.services.operator.claim_informer.resource, name, lambda c: WORDS in c.status.detail
    )
    assert found.status.detail == f"the instance runs but is not ready: {WORDS}"
    (instance,) = (await rest.get("/instances")).json()
    assert instance["detail"] == found.status.detail
    (why, *_) = reversed((await rest.get(f"/why/claim/{name}")).json()["passes"])
    assert WORDS in str(why["plan"])


@pytest.mark.slow
async def test_a_failing_probe_is_the_pools_detail(rest: Rest) -> None:
    """Counted, since all of them wait for the same."""
    rest.world.kubelet.behaviour = deaf
    await rest.world.ready_workload()
    await rest.world.pool(size=3, fill=2)
    waits = "3 of 3 wait: not ready: its readiness probe (tcp 8080) has not succeeded yet"
    await rest.world.until(POOLS, "warm", lambda p: p.status and p.status.detail == waits)
    for pod in await rest.world.pods():
        await told_unhealthy(rest, pod)
    told = f"3 of 3 wait: not ready: {WORDS}"
    await rest.world.until(POOLS, "warm", lambda p: p.status and p.status.detail == told)
    (why, *_) = reversed((await rest.get("/why/pool/warm")).json()["passes"])
    assert told in str(why["plan"])


async def test_a_crash_loop_is_told_at_once(rest: Rest) -> None:
    """To who claims again, without the wait that helps nothing; in lists, health and exec."""
    await rest.world.ready_workload()
    first = (await rest.claim("bob")).json()
    name = first["instanceId"]
    await rest.world.kubelet.behave(crashing)
    words = f"crashed 3 times: exit code 7; see `boilerhouse logs {name} --previous`"
    await rest.world.until(
        rest.services.operator.claim_informer.resource,
        first["claim"],
        lambda c: c.status.detail == words,
    )
    began = rest.services.clock.monotonic()
    again = await rest.claim("bob", params={"wait": "60"})
    assert rest.services.clock.monotonic() - began < 30
    assert (again.status_code, again.json()["phase"]) == (202, "Active")
    assert (again.json()["detail"], again.json()["instanceId"]) == (words, name)
    (instance,) = (await rest.get("/instances")).json()
    assert (instance["detail"], instance["restarts"], instance["ready"]) == (words, 2, False)
    assert (await rest.get("/health")).json() == {"status": "ok", "crashLooping": 1}

    async def gone(socket: Socket, argv: list[str]) -> int:
        raise NotFound('container not found ("tenant")')

    rest.node.programs["echo"] = gone
    for accept in ("application/json", "application/x-ndjson"):
        headers = {"accept": accept}
        path = f"/instances/{name}/exec"
        refused = await rest.post(path, {"command": ["echo"]}, headers=headers)
        assert refused.status_code == 409
        assert "crashed 3 times: exit code 7, and is started again" in refused.json()["error"]

    await rest.world.kubelet.behave(running)
    await rest.world.until(PODS, name, lambda pod: pod.ready)
    await rest.world.until(
        rest.services.operator.claim_informer.resource,
        first["claim"],
        lambda c: c.status.detail == "",
    )
    assert (await rest.claim("bob")).status_code == 200
    assert (await rest.get("/health")).json() == {"status": "ok"}


async def test_every_port_is_told_with_where_it_is_reached(rest: Rest) -> None:
    """A port that is taken on the machine is named, and never answered as the instance's."""
    await rest.world.ready_workload(network={"expose": [{"guest": 8011}, {"guest": 8012}]})
    claimed = (await rest.claim("ada")).json()
    host, name = claimed["endpoint"]["host"], claimed["instanceId"]
    first = {"port": 8011, "host": host, "hostPort": 8011}
    assert claimed["endpoints"] == [first, {"port": 8012, "host": host, "hostPort": 8012}]
    assert "detail" not in claimed

    moved = {"metadata": {"annotations": {names.PORTS: "8012:44187"}}}
    await rest.world.client.merge_patch(PODS, name, moved)
    await rest.world.settles(lambda: _heard(rest, name))
    there = [first, {"port": 8012, "host": host, "hostPort": 44187}]
    words = "port 8012 is taken on this machine by another program; reached at 44187"
    again = (await rest.claim("ada")).json()
    assert (again["endpoints"], again["detail"]) == (there, words)
    (instance,) = (await rest.get("/instances")).json()
    assert (instance["endpoints"], instance["detail"]) == (there, words)
    (claim,) = (await rest.get("/tenants/ada")).json()["claims"]
    assert claim["endpoints"] == there


async def _heard(rest: Rest, name: str) -> bool:
    pod = rest.services.informers.pods.get(rest.services.client.namespace, name)
    return pod is not None and names.PORTS in pod.metadata.annotations
