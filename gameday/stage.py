"""What a scenario works with: a live `up`, its REST and Kubernetes APIs, tenants, and a deadline.

Stage ─┬─► rest     http://127.0.0.1:PORT
       ├─► kube     DIR/kube.sock
       └─► others() how long everybody else's calls take meanwhile
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2

from gameday.latency import Latencies, rest
from gameday.scenario import Broke, held
from gameday.up import Up

Body = dict[str, Any]

GROUP = "/apis/boilerhouse.dev/v1alpha1/namespaces/boilerhouse"
PODS = "/api/v1/namespaces/boilerhouse/pods"


class Stage:
    """The scenarios' world; one after another they use it, each with tenants of its own."""

    def __init__(self, up: Up) -> None:
        self.up = up
        self.rest = httpx2.Client(base_url=f"{up.url}/api/v1", timeout=120)
        self.kube = httpx2.Client(
            transport=httpx2.HTTPTransport(uds=str(up.data / "kube.sock")),
            base_url="http://kube",
            timeout=300,
        )

    def close(self) -> None:
        self.rest.close()
        self.kube.close()

    def workload(self, name: str, script: str = "exec sleep 100000", **spec: Any) -> None:
        """Apply a workload that runs a shell script, and wait until it can be claimed."""
        wanted: Body = {
            "version": "1",
            "image": {"ref": "host"},
            "resources": {"vcpus": 0.5, "memoryMb": 128, "diskGb": 1},
            "network": {"access": "none"},
            "filesystem": {"overlayDirs": ["/workspace"]},
            "entrypoint": {"cmd": "/bin/sh", "args": ["-c", script], "workdir": "/workspace"},
            **spec,
        }
        answer = self.rest.put(f"/workloads/{name}", json={"spec": wanted})
        held(answer.status_code in (200, 201), f"workload {name}: {answer.text}")
        self.until(
            lambda: self.rest.get(f"/workloads/{name}").json()["status"]["phase"] == "Ready",
            f"the workload {name} is Ready",
        )

    def claim(self, tenant: str, workload: str, **body: Any) -> Body:
        """Claim and return the answer, which has an instance."""
        answer = self.rest.post(
            f"/tenants/{tenant}/claim", json={"workload": workload, **body}, params={"wait": 110}
        )
        held(answer.status_code in (200, 201), f"claim of {tenant}: {said(answer)}")
        found: Body = answer.json()
        return found

    def instance(self, tenant: str, workload: str) -> str:
        return str(self.claim(tenant, workload)["instanceId"])

    def release(self, tenant: str, workload: str) -> Body:
        answer = self.rest.post(
            f"/tenants/{tenant}/release", json={"workload": workload}, params={"wait": 110}
        )
        held(answer.status_code == 200, f"release of {tenant}: {said(answer)}")
        found: Body = answer.json()
        return found

    def execute(self, instance: str, *command: str, seconds: int = 60) -> httpx2.Response:
        """Run a command and return the answer, whatever it says."""
        body = {"command": list(command), "timeoutSeconds": seconds}
        return self.rest.post(f"/instances/{instance}/exec", json=body)

    def sh(self, instance: str, script: str, seconds: int = 60) -> str:
        """Run a shell script that must succeed and return what it printed."""
        answer = self.execute(instance, "/bin/sh", "-c", script, seconds=seconds)
        held(answer.status_code == 200, f"exec: {said(answer)}")
        done = answer.json()
        held(done["exitCode"] == 0, f"exec ended with {done['exitCode']}: {done['stderr'][-300:]}")
        return str(done["stdout"])

    def status(self, tenant: str, workload: str) -> Body:
        """Return the status of the tenant's claim; empty without one."""
        for claim in self.kube.get(f"{GROUP}/boilerhouseclaims").json()["items"]:
            spec = claim["spec"]
            if (spec["tenantId"], spec["workloadRef"]) == (tenant, workload):
                return dict(claim.get("status", {}))
        return {}

    def condition(self, tenant: str, workload: str, name: str) -> Body:
        for condition in self.status(tenant, workload).get("conditions", ()):
            if condition["type"] == name:
                return dict(condition)
        return {}

    def until(self, holds: Callable[[], object], what: str, seconds: float = 30) -> Any:
        """Wait until something holds and return it; after too long the promise is broken."""
        deadline = time.monotonic() + seconds
        while True:
            found = holds()
            if found:
                return found
            if time.monotonic() > deadline:
                raise Broke(f"not within {seconds:g} s: {what}")
            time.sleep(0.05)

    def codes(self, count: int, call: Callable[[int], httpx2.Response]) -> list[Future[int]]:
        """Make calls at once, each in a thread; their futures hold the status codes, 0: none."""
        pool = ThreadPoolExecutor(count)

        def code(number: int) -> int:
            try:
                return call(number).status_code
            except httpx2.HTTPError:
                return 0

        futures = [pool.submit(code, number) for number in range(count)]
        pool.shutdown(wait=False)
        return futures

    @contextmanager
    def others(
        self, usually: str = "at rest", at_rest: Callable[[], object] = rest
    ) -> Iterator[Latencies]:
        """Measure calls of an innocent tenant at rest, then while the block runs, and compare."""
        self.workload("innocent")
        self.claim("innocent", "innocent")
        latencies = Latencies(self.up.url, "innocent", "innocent", usually)
        with latencies.at_rest():
            at_rest()
        with latencies.meanwhile():
            yield latencies
        latencies.judge()

    def restart(self) -> None:
        """Stop `up` in order and start it again on the same data."""
        self.up.stop()
        self.up.start()


def said(answer: httpx2.Response) -> str:
    """Return an answer as one line."""
    return f"{answer.status_code} {answer.text[:300]}"
