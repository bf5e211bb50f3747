"""Instances on a real node, with `boilerhouse operator` and `boilerhouse api` beside it.

kubectl apply -f config/crd ─► operator, api (processes, KUBECONFIG) ─► REST and kubectl
                                                  └─► kubelet, containerd ─► tenants with agents

One house for the whole file, since a Pod of a real node takes seconds: each story has workloads
and tenants of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cluster.images import BUSYBOX

from boilerhouse.core import names
from tests.e2e.helper_fixture import helper_volume
from tests.e2e.kubectl import Kubectl, binary
from tests.e2e.served_fixture import Body, House, programs

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

CRDS = Path(__file__).parent.parent.parent / "config" / "crd"
TALKS = {
    "cmd": "/bin/sh",
    "args": ["-c", "echo listening; n=0; while sleep 0.5; do n=$((n+1)); echo tick $n; done"],
}


@dataclass
class Beside(House):
    """A house beside a node, with kubectl in its namespace."""

    kubectl: Kubectl
    namespace: str

    def kube(self, *arguments: str, stdin: object = None, fails: bool = False) -> str:
        return self.kubectl("-n", self.namespace, *arguments, stdin=stdin, fails=fails)

    def object(self, kind: str, name: str) -> Body:
        body: Body = json.loads(self.kube("get", kind, name, "-o", "json"))
        return body

    def workload(self, name: str, **changes: Any) -> None:
        answer = self.ask("PUT", f"/workloads/{name}", {"spec": self.spec(**changes)})
        assert answer.status_code in (200, 201), answer.text
        self.until_ready(f"/workloads/{name}", phase="Ready")

    def pool(self, name: str, workload: str, size: int) -> None:
        spec = {"workloadRef": workload, "size": size}
        assert self.ask("PUT", f"/pools/{name}", {"spec": spec}).status_code in (200, 201)

    def claim(self, tenant: str, workload: str, wait: float = 60) -> httpx2.Response:
        body = {"workload": workload}
        return self.ask("POST", f"/tenants/{tenant}/claim", body, params={"wait": wait})

    def release(self, tenant: str, workload: str) -> None:
        answer = self.ask("POST", f"/tenants/{tenant}/release", {"workload": workload})
        assert (answer.status_code, answer.json()["phase"]) == (200, "Released"), answer.text

    def warm(self, workload: str) -> set[str]:
        """Return the names of a workload's Ready warm instances."""
        return {
            instance["name"]
            for instance in self.ask("GET", "/instances").json()
            if instance["labels"].get(names.POOL_STATUS) == names.READY
            and instance["workloadRef"] == workload
        }


def soon(what: str, holds: Callable[[], Any], seconds: float = 30) -> Any:
    """Ask again until the answer is true, as a script would; return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.1)
    pytest.fail(f"{what}: not within {seconds} s")


@pytest.fixture(scope="module")
def house(
    node_kubeconfig: Path, product_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Beside]:
    directory = tmp_path_factory.mktemp("beside")
    kubectl = Kubectl(binary(), node_kubeconfig, directory)
    namespace = f"instances-{os.getpid()}"
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", "-f", str(CRDS), "--timeout=30s")
    kubectl("create", "namespace", namespace)
    try:
        with (
            _volume(kubectl, namespace, directory / "volume"),
            programs(node_kubeconfig, namespace) as (http, environ),
        ):
            yield Beside(http, "node", BUSYBOX, TALKS, environ, kubectl, namespace)
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")


@contextmanager
def _volume(kubectl: Kubectl, namespace: str, directory: Path) -> Iterator[None]:
    """A volume for the helper: this node has nobody who would make one."""
    volume = helper_volume(namespace, directory)
    kubectl("create", "-f", "-", stdin=volume)
    try:
        yield
    finally:
        kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")


@pytest.fixture(scope="module")
def web(house: Beside) -> str:
    """A workload with a pool that keeps one instance warm; exposes nothing, so it is ready soon."""
    house.workload("web", network={"access": "none"})
    house.pool("warm", "web", 1)
    house.until_ready("/pools/warm", ready=1)
    return "web"


def test_the_story_of_a_tenant(house: Beside, web: str) -> None:
    """From the pool, existing, commands, logs; released, then claimed again: the pool refilled."""
    [spare] = house.warm(web)
    made = house.claim("alice", web)
    assert (made.status_code, made.json()["source"]) == (201, "pool"), made.text
    assert made.json()["instanceId"] == spare
    assert sum(v for k, v in made.json()["timings"].items() if k != "total") == pytest.approx(
        made.json()["timings"]["total"]
    )
    again = house.claim("alice", web)
    assert (again.status_code, again.json()["source"]) == (200, "existing")
    assert again.json()["instanceId"] == spare

    done = house.run(spare, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done == {"exitCode": 3, "stdout": "out\n", "stderr": "err\n", "truncated": False}
    missing = house.run(spare, "no-such-program")
    assert missing["exitCode"] == 127
    assert "no-such-program" in missing["stderr"]
    log = house.ask("GET", f"/instances/{spare}/logs", params={"tail": 1}).text
    assert len(log.splitlines()) == 1
    with house.http.stream(
        "GET", f"/api/v1/instances/{spare}/logs", params={"follow": "true", "tail": 1}
    ) as following:
        seen = list(itertools.islice(following.iter_lines(), 3))
    assert all(line.startswith("tick") for line in seen), seen

    soon("another one is warm", lambda: house.warm(web) - {spare})
    house.release("alice", web)
    assert house.ask("POST", f"/instances/{spare}/exec", {"command": ["ls"]}).status_code == 404
    assert house.ask("GET", "/tenants/alice").json()["claims"] == []  # files are all she has left
    back = house.claim("alice", web).json()
    assert back["source"] == "pool+data"
    assert back["instanceId"] != spare
    house.release("alice", web)


def test_a_warm_instance_learns_whose_it_is(house: Beside, web: str) -> None:
    """Tenant, workload, claim and a token arrive as files; no container is started again for it."""
    soon("one is warm", lambda: house.warm(web))
    claimed = house.claim("anna", web).json()
    assert claimed["source"] == "pool"
    instance = claimed["instanceId"]
    # The helper may still be starting: it is the house's first minute.
    soon(
        "the identity is there",
        lambda: house.run(instance, "cat", "/run/boilerhouse/tenant")["stdout"] == "anna",
        60,
    )
    told = house.run(instance, "sh", "-c", "cd /run/boilerhouse; cat workload claim api-url")
    assert told["stdout"] == (
        f"{web}{claimed['claim']}http://boilerhouse-api.{house.namespace}.svc:3000"
    )
    token = house.run(instance, "cat", "/run/boilerhouse/token")["stdout"]
    headers = {"authorization": f"Bearer {token}"}
    listed = house.ask("GET", "/instances", headers=headers)
    assert [one["name"] for one in listed.json()] == [instance]
    assert house.ask("GET", "/pools", headers=headers).status_code == 403
    assert house.ask("GET", f"/instances/{instance}").json()["restarts"] == 0
    house.release("anna", web)
    assert house.ask("GET", "/instances", headers=headers).status_code == 401


def test_applied_with_kubectl(house: Beside, web: str) -> None:
    """A Claim that kubectl applies becomes what one over REST becomes, and goes when deleted."""
    soon("one is warm", lambda: house.warm(web))
    claim = {
        "apiVersion": names.API_VERSION,
        "kind": "BoilerhouseClaim",
        "metadata": {"name": "by-hand"},
        "spec": {"tenantId": "Zoë 1", "workloadRef": web},
    }
    house.kube("apply", "-f", "-", stdin=claim)
    house.kube("wait", "bhc/by-hand", "--for=jsonpath={.status.phase}=Active", "--timeout=30s")
    status = house.object("bhc", "by-hand")["status"]
    assert status["source"] == "pool"
    pod = house.object("pod", status["instanceId"])
    assert status["endpoint"]["host"] == pod["status"]["podIP"]
    assert pod["metadata"]["annotations"][names.TENANT_ID] == "Zoë 1"
    assert names.POOL not in pod["metadata"]["labels"]
    [held] = house.ask("GET", "/tenants/Zoë 1").json()["claims"]
    assert (held["name"], held["instanceId"]) == ("by-hand", status["instanceId"])
    told = house.kube("get", "events", "--field-selector", "involvedObject.name=by-hand")
    assert "Pending → Active" in told
    second = house.claim("Zoë 1", web)
    assert (second.status_code, second.json()["source"]) == (200, "existing"), second.text
    assert second.json()["claim"] == "by-hand"
    house.kube("delete", "bhc/by-hand", "--timeout=30s")
    assert "NotFound" in house.kube("get", "pod", status["instanceId"], fails=True)


def test_killed_by_hand(house: Beside, web: str) -> None:
    """A claim whose Pod somebody kills is Released and says so; the tenant's next claim works."""
    soon("one is warm", lambda: house.warm(web))
    claimed = house.claim("kim", web).json()
    house.kube("delete", "pod", claimed["instanceId"], "--grace-period=1")
    over = "--for=jsonpath={.status.phase}=Released"
    house.kube("wait", f"bhc/{claimed['claim']}", over, "--timeout=30s")
    status = house.object("bhc", claimed["claim"])["status"]
    assert claimed["instanceId"] in status["detail"]
    assert "endpoint" not in status
    back = house.claim("kim", web)
    assert back.status_code == 201, back.text
    assert back.json()["instanceId"] != claimed["instanceId"]
    house.release("kim", web)


def test_cold(house: Beside) -> None:
    """Without a pool the instance is started for the claim; its port is the endpoint."""
    serves = {"cmd": "/bin/sh", "args": ["-c", "echo listening; exec httpd -f -p 8080"]}
    house.workload("cold", entrypoint=serves)
    made = house.claim("carl", "cold")
    assert (made.status_code, made.json()["source"]) == (201, "cold"), made.text
    assert made.json()["endpoint"]["port"] == 8080
    instance = made.json()["instanceId"]
    assert "listening" in house.ask("GET", f"/instances/{instance}/logs").text
    house.release("carl", "cold")


def test_a_pool_is_scaled_rolled_and_removed(house: Beside) -> None:
    """kubectl scale fills; a new blueprint replaces the warm ones; a claimed one survives all."""
    house.workload("rolls", network={"access": "none"})
    house.pool("rolling", "rolls", 1)
    house.until_ready("/pools/rolling", ready=1, phase="Healthy")
    kept = house.claim("rosa", "rolls").json()
    assert kept["source"] == "pool"
    house.kube("scale", "bhp/rolling", "--replicas=2")
    house.until_ready("/pools/rolling", ready=2, phase="Healthy")
    before = house.warm("rolls")
    assert len(before) == 2
    house.workload("rolls", network={"access": "none"}, entrypoint=TALKS | {"env": {"V": "2"}})
    fresh = house.claim("ruth", "rolls").json()
    assert fresh["instanceId"] not in before
    assert house.run(fresh["instanceId"], "sh", "-c", "echo $V")["stdout"] == "2\n"
    soon("the pool is rolled", lambda: len(house.warm("rolls") - before) == 2)
    assert not house.warm("rolls") & before
    house.kube("delete", "bhp/rolling", "--timeout=30s")
    soon("the warm ones are gone", lambda: not house.warm("rolls"))
    for tenant, claimed in (("rosa", kept), ("ruth", fresh)):
        again = house.claim(tenant, "rolls").json()
        assert (again["source"], again["instanceId"]) == ("existing", claimed["instanceId"])
        house.release(tenant, "rolls")


def test_no_node_has_room(house: Beside) -> None:
    """A claim that cannot be scheduled stays Pending with the scheduler's words: 202, not Error."""
    house.workload("huge", resources={"vcpus": 500, "memoryMb": 64, "diskGb": 1})
    made = house.claim("hugo", "huge", wait=3)
    assert (made.status_code, made.json()["phase"]) == (202, "Pending"), made.text
    assert "Insufficient cpu" in made.json()["detail"]
    house.release("hugo", "huge")


def test_no_such_image(house: Beside) -> None:
    """An image that does not arrive: Pending at first, and the kubelet's words say which."""
    house.workload("lost", image={"ref": "localhost/no-such-image:1"})
    made = house.claim("lou", "lost", wait=0)
    assert (made.status_code, made.json()["phase"]) == (202, "Pending"), made.text

    def detail() -> str:
        [held] = house.ask("GET", "/tenants/lou").json()["claims"]
        assert held["phase"] == "Pending"
        told: str = held.get("detail", "")
        return told

    assert "localhost/no-such-image:1" in soon("it is said why", detail)
    house.release("lou", "lost")


def test_a_quota_refuses(house: Beside, web: str) -> None:
    """A quota that is spent: 429 and a claim in Error with its words; met once there is room."""
    soon("the pool is full", lambda: house.warm(web))
    house.pool("warm", web, 0)
    soon("the pool is empty", lambda: not house.warm(web))
    used = len(house.kube("get", "pods", "-o", "name").split())
    house.kube("create", "quota", "tight", f"--hard=pods={used}")
    house.kube("wait", "quota/tight", f"--for=jsonpath={{.status.used.pods}}={used}")
    made = house.claim("quentin", web, wait=10)
    assert (made.status_code, made.json()["code"]) == (429, "QuotaExceeded"), made.text
    assert "exceeded quota: tight" in made.text
    [held] = house.ask("GET", "/tenants/quentin").json()["claims"]
    assert (held["phase"], "exceeded quota" in held["detail"]) == ("Error", True)
    house.kube("delete", "quota", "tight")
    met = house.claim("quentin", web)
    assert met.json()["source"] == "cold", met.text
    house.release("quentin", web)
