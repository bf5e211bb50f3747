"""Houses whose tenants come back: the same questions on one machine and beside a real node.

Home ─► REST as in House, the cluster behind it, and the volume that the snapshots lie on
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from cluster.images import BUSYBOX

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import NAMESPACE
from boilerhouse.node.helper import layout
from boilerhouse.operator import catalogue
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import CRDS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from boilerhouse.platform.kube.status import AlreadyExists, NotFound
from boilerhouse.platform.kube.transport import Http
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.absence import absent, sandbox_unavailable
from tests.e2e.helper_fixture import VOLUMES, helper_volume
from tests.e2e.served_fixture import Body, House, program, programs
from tests.waiting import until, until_found

T = TypeVar("T")
_NUMBERS = itertools.count(1)

# Keeps what it knows in memory, and writes it when it is told to end.
SLEEPS = {
    "cmd": "/bin/sh",
    "args": [
        "-c",
        "trap 'echo bye > /workspace/last-words; exit 0' TERM; while :; do sleep 0.2; done",
    ],
}


@dataclass
class Home(House):
    """A house with its cluster and its volume."""

    kubeconfig: Path
    namespace: str
    volume: Path

    def kube(self, asks: Callable[[Client], Awaitable[T]]) -> T:
        """Ask the Kubernetes API behind the house, past everything of ours."""

        async def asked() -> T:
            client = Client(Http(from_kubeconfig(self.kubeconfig)), self.namespace)
            try:
                return await asks(client)
            finally:
                await client.close()

        return asyncio.run(asked())

    def workload(self, name: str, **changes: Any) -> None:
        spec = self.spec(**({"network": {"access": "none"}} | changes))
        answer = self.ask("PUT", f"/workloads/{name}", {"spec": spec})
        assert answer.status_code in (200, 201), answer.text
        self.until_ready(f"/workloads/{name}", phase="Ready")

    def pool(self, workload: str, size: int = 1) -> None:
        """Have a pool that is full."""
        spec = {"workloadRef": workload, "size": size}
        assert self.ask("PUT", f"/pools/{workload}", {"spec": spec}).status_code in (200, 201)
        self.until_ready(f"/pools/{workload}", ready=size)

    def claim(self, tenant: str, workload: str, source: str, **more: Any) -> str:
        """Claim, see that it came as expected, and return the instance."""
        body = {"workload": workload} | more
        made = self.ask("POST", f"/tenants/{tenant}/claim", body, params={"wait": 90})
        assert made.status_code in (200, 201), made.text
        assert made.json()["source"] == source, made.text
        name: str = made.json()["instanceId"]
        return name

    def release(self, tenant: str, workload: str, how: str = "") -> httpx2.Response:
        path = f"/tenants/{tenant}/release{how}"
        return self.ask("POST", path, {"workload": workload}, params={"wait": 90})

    def released(self, tenant: str, workload: str, how: str = "") -> Body | None:
        """Release, and return what was saved."""
        answer = self.release(tenant, workload, how)
        assert (answer.status_code, answer.json()["phase"]) == (200, "Released"), answer.text
        saved: Body | None = answer.json()["snapshot"]
        return saved

    def sh(self, instance: str, script: str) -> str:
        """Run a script in an instance; it has to succeed."""
        done = self.run(instance, "sh", "-c", script)
        assert done["exitCode"] == 0, done
        told: str = done["stdout"]
        return told

    def held(self, tenant: str) -> Body:
        """Return the one claim of a tenant; empty if there is none."""
        answer = self.ask("GET", f"/tenants/{tenant}")
        claims = answer.json()["claims"] if answer.status_code == 200 else []
        found: Body = claims[0] if claims else {}
        return found

    def in_phase(self, tenant: str, phase: str, seconds: float = 60) -> Body:
        def is_it() -> Body | None:
            held = self.held(tenant)
            return held if held.get("phase") == phase else None

        return soon(f"{tenant}'s claim is {phase}", is_it, seconds)

    def status(self, claim: str) -> Body:
        """Return all that a Claim's status says."""

        async def asked(client: Client) -> Any:
            return await client.raw("GET", CLAIMS.path(client.namespace, claim))

        body: Body = self.kube(asked)["status"]
        return body

    def versions(self, tenant: str, workload: str) -> list[Body]:
        answer = self.ask("GET", f"/tenants/{tenant}/workloads/{workload}/snapshots")
        assert answer.status_code == 200, answer.text
        found: list[Body] = answer.json()
        return found

    def archive(self, tenant: str, workload: str) -> Path:
        """Return where the volume has what a claim would restore."""
        return self.volume / tenant / f"{workload}.tar.gz"

    def pod(self, name: str) -> Pod | None:
        async def asked(client: Client) -> Pod | None:
            try:
                return await client.get(PODS, name)
            except NotFound:
                return None

        return self.kube(asked)

    def delete_pod(self, name: str, grace: int | None = None) -> None:
        self.kube(lambda client: client.delete(PODS, name, grace=grace))

    def until_helped(self) -> None:
        """Wait until the helper answers."""
        soon("the helper serves", lambda: self.ask("GET", "/snapshots").status_code == 200, 90)

    @contextmanager
    def helpless(self) -> Iterator[None]:
        """Keep the helper from running: whoever holds its lock has the volume."""
        taken, over = threading.Event(), threading.Event()

        def hold() -> None:
            with (self.volume / ".lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # as soon as the helper that runs lets go
                taken.set()
                over.wait()

        holding = threading.Thread(target=hold)
        holding.start()
        try:
            self.delete_pod(layout.POD, grace=0)
            assert taken.wait(60), "the helper does not let go of its volume"
            yield
        finally:
            over.set()
            holding.join()
            # What failed to start would be waited for longer each time.
            with contextlib.suppress(NotFound):
                self.delete_pod(layout.POD, grace=0)
            self.until_helped()


def soon(what: str, holds: Callable[[], T | None], seconds: float = 60) -> T:
    """Ask again until the answer is true, as a script would; return it."""
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.05)
    pytest.fail(f"{what}: not within {seconds} s")


@contextmanager
def on_this_machine(directory: Path, end: signal.Signals = signal.SIGINT) -> Iterator[Home]:
    """`boilerhouse up`, ended by `end`."""
    problems = asyncio.run(sandbox_unavailable(directory / "check", SystemClock()))
    if problems:
        absent(f"containers cannot run here: {problems[0]}")
    options = ("--data", str(directory / "data"), "--port", "0", "--kube-port", "0")
    with (
        program("up", *options, said="up.serving", env={}, end=end) as serving,
        httpx2.Client(base_url=serving["api"], timeout=120) as http,
    ):
        environ = {"BOILERHOUSE_URL": serving["api"]}
        volume = directory / "data" / "snapshots"
        kubeconfig = Path(serving["kubeconfig"])
        yield Home(http, "embedded", "host", SLEEPS, environ, kubeconfig, NAMESPACE, volume)


@contextmanager
def beside_a_node(kubeconfig: Path, directory: Path) -> Iterator[Home]:
    """Operator and API as processes, and a volume: this node has nobody who would make one."""
    # A name of its own for each file of tests: a namespace takes its time to go.
    namespace, volume = f"homes-{os.getpid()}-{next(_NUMBERS)}", directory / "volume"

    async def furnish(client: Client) -> None:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await until_found(client, SERVICE_ACCOUNTS, "default")
        for crd in catalogue.crds():
            with contextlib.suppress(AlreadyExists):
                await client.raw("POST", CRDS.path(""), crd)
            name = crd["metadata"]["name"]
            await until(client, CRDS, name, lambda found: found is not None and found.established)
        await client.create(VOLUMES, helper_volume(namespace, volume))

    async def clear(client: Client) -> None:
        # The operator is gone, and would have to let go of them: the namespace would stay for ever.
        bare = {"metadata": {"finalizers": None}}
        for resource in (CLAIMS, POOLS, WORKLOADS):
            for one in (await client.list(resource)).items:
                await client.merge_patch(resource, one.metadata.name, bare)
        await client.delete(NAMESPACES, namespace)
        await client.delete(VOLUMES, f"{layout.VOLUME_CLAIM}-{namespace}")

    home = Home(httpx2.Client(), "node", BUSYBOX, SLEEPS, {}, kubeconfig, namespace, volume)
    home.kube(furnish)
    try:
        with programs(kubeconfig, namespace) as (home.http, home.environ):
            home.until_helped()
            yield home
    finally:
        home.kube(clear)
