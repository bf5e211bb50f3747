"""S1's story over HTTP with real processes: `up` on one machine, operator and API beside a node.

up | operator + api (processes) ─► REST ─► claim, exec, logs, destroy, release
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from cluster.images import BUSYBOX

from boilerhouse.core.clock import SystemClock
from boilerhouse.operator import catalogue
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.resources import CRDS, NAMESPACES, SERVICE_ACCOUNTS
from boilerhouse.platform.kube.status import AlreadyExists
from boilerhouse.platform.kube.transport import Http
from tests.absence import absent, sandbox_unavailable
from tests.e2e.helper_fixture import kept_volume
from tests.e2e.served_fixture import House, program, programs
from tests.e2e.tenants import eventually
from tests.waiting import until, until_found

_NUMBERS = itertools.count(1)

# Answers with the name of its tenant, once it knows it.
_SERVER = (
    "import http.server as h\n"
    "class H(h.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(b'hello')\n"
    "print('listening', flush=True)\n"
    "h.ThreadingHTTPServer(('', 8080), H).serve_forever()\n"
)
PYTHON = {"cmd": "/usr/bin/python3", "args": ["-c", _SERVER]}
HTTPD = {"cmd": "/bin/sh", "args": ["-c", "echo listening; exec httpd -f -p 8080"]}


@asynccontextmanager
async def on_this_machine(tmp_path: Path) -> AsyncIterator[House]:
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")
    options = ("--data", str(tmp_path / "data"), "--port", "0", "--kube-port", "0")
    with program("up", *options, said="up.serving", env={}) as serving:
        environ = {"BOILERHOUSE_URL": serving["api"]}
        with httpx2.Client(base_url=serving["api"], timeout=60) as http:
            yield House(http, "embedded", "host", PYTHON, environ)


@asynccontextmanager
async def beside_a_node(kubeconfig: Path, volume: Path) -> AsyncIterator[House]:
    client = Client(Http(from_kubeconfig(kubeconfig)), f"rest-{os.getpid()}-{next(_NUMBERS)}")
    await client.create(NAMESPACES, {"metadata": {"name": client.namespace}})
    await until_found(client, SERVICE_ACCOUNTS, "default")
    for crd in catalogue.crds():
        with contextlib.suppress(AlreadyExists):
            await client.raw("POST", CRDS.path(""), crd)
        name = crd["metadata"]["name"]
        await until(client, CRDS, name, lambda found: found is not None and found.established)
    try:
        async with kept_volume(client, volume):
            with programs(kubeconfig, client.namespace) as (http, environ):
                yield House(http, "node", BUSYBOX, HTTPD, environ)
    finally:
        await client.delete(NAMESPACES, client.namespace)
        await client.close()


EMBEDDED = pytest.param("embedded", marks=pytest.mark.slow)
NODE = pytest.param("node", marks=pytest.mark.node)


@pytest.fixture(params=[EMBEDDED, NODE])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    if request.param == "embedded":
        async with on_this_machine(tmp_path) as opened:
            yield opened
        return
    request.getfixturevalue("product_image")
    kubeconfig = request.getfixturevalue("node_kubeconfig")
    async with beside_a_node(kubeconfig, tmp_path / "volume") as opened:
        yield opened


@pytest.mark.timeout(300)
def test_a_tenant_from_claim_to_release(house: House) -> None:
    """Cold, then existing; commands, logs, a page; destroyed, claimed again, released."""
    assert house.ask("PUT", "/workloads/web", {"spec": house.spec()}).status_code == 201
    house.until_ready("/workloads/web", phase="Ready")
    made = house.ask("POST", "/tenants/alice/claim", {"workload": "web"}, params={"wait": 60})
    assert (made.status_code, made.json()["source"]) == (201, "cold"), made.text
    name = made.json()["instanceId"]
    again = house.ask("POST", "/tenants/alice/claim", {"workload": "web"}).json()
    assert (again["source"], again["instanceId"]) == ("existing", name)

    done = house.run(name, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done == {"exitCode": 3, "stdout": "out\n", "stderr": "err\n", "truncated": False}
    assert house.run(name, "no-such-program")["exitCode"] == 127
    big = house.run(name, "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x")
    assert (len(big["stdout"]), big["truncated"]) == (1 << 20, True)
    assert "listening" in house.ask("GET", f"/instances/{name}/logs").text
    [listed] = [i for i in house.ask("GET", "/instances").json() if i.get("tenantId") == "alice"]
    assert (listed["name"], listed["phase"], listed["workloadRef"]) == (name, "Running", "web")
    if house.kind == "embedded":
        endpoint = made.json()["endpoint"]
        page = httpx2.get(f"http://{endpoint['host']}:{endpoint['port']}/")
        assert page.text == "hello"

    assert house.ask("POST", f"/instances/{name}/destroy").status_code == 200
    back = house.ask("POST", "/tenants/alice/claim", {"workload": "web"}, params={"wait": 60})
    assert back.status_code == 201, back.text
    assert back.json()["instanceId"] != name
    released = house.ask("POST", "/tenants/alice/release", {"workload": "web"})
    assert (released.status_code, released.json()["phase"]) == (200, "Released")
    assert house.ask("GET", "/tenants/alice").json()["claims"] == []
    assert house.ask("POST", f"/instances/{name}/exec", {"command": ["ls"]}).status_code == 404


@pytest.mark.timeout(300)
def test_a_warm_instance_through_the_command_line(house: House) -> None:
    """apply, get, claim from the pool, exec with input, logs, release: all by the program."""
    documents = [
        {"apiVersion": "boilerhouse.dev/v1alpha1", "kind": f"Boilerhouse{kind}",
         "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in (
            ("Workload", "web", house.spec()),
            ("Pool", "warm", {"workloadRef": "web", "size": 1}),
        )
    ]  # fmt: skip
    text = "\n---\n".join(json.dumps(document) for document in documents)
    applied = house.cli("apply", "-f", "-", stdin=text)
    assert applied.stdout.splitlines() == ["workload/web created", "pool/warm created"]
    house.until_ready("/pools/warm", ready=1)
    claimed = house.cli("claim", "alice", "web", "-o", "json", "--wait", "60")
    body = json.loads(claimed.stdout)
    assert body["source"] == "pool"
    name = body["instanceId"]
    assert name in house.cli("get", "instances").stdout
    fed = house.cli("exec", "-i", name, "--", "cat", stdin="héllo")
    assert (fed.returncode, fed.stdout) == (0, "héllo")
    assert house.cli("exec", name, "--", "sh", "-c", "exit 9").returncode == 9
    assert "listening" in house.cli("logs", name, "--tail", "5").stdout
    assert house.cli("release", "alice", "web").returncode == 0
    assert house.cli("exec", name, "--", "true").returncode == 1


@pytest.mark.slow
async def test_an_instance_knows_who_it_is(tmp_path: Path) -> None:
    """The token in a running instance opens what the workload allows, and ends with the claim."""
    async with on_this_machine(tmp_path) as house:
        house.ask("PUT", "/workloads/web", {"spec": house.spec()})
        house.until_ready("/workloads/web", phase="Ready")
        name = house.ask("POST", "/tenants/alice/claim", {"workload": "web"}).json()["instanceId"]
        house.ask("POST", "/tenants/bob/claim", {"workload": "web"})
        for _ in range(100):
            token = house.run(name, "cat", "/run/boilerhouse/token")["stdout"]
            if token:
                break
            await asyncio.sleep(0.1)
        _files(house, name)
        headers = {"authorization": f"Bearer {token}"}
        seen = house.ask("GET", "/instances", headers=headers).json()
        assert [instance["tenantId"] for instance in seen] == ["alice"]
        assert house.ask("GET", "/pools", headers=headers).status_code == 403
        assert house.ask("POST", "/tenants/alice/release", {"workload": "web"}).status_code == 200
        assert house.ask("GET", "/instances", headers=headers).status_code == 401


@pytest.mark.slow
async def test_a_log_of_any_length_is_whole(tmp_path: Path) -> None:
    """Over HTTP and by the program, however many lines are asked for."""
    script = "for n in range(2000): print(n, 'x' * 9990)\nimport time; time.sleep(1e6)"
    writer = {"cmd": "/usr/bin/python3", "args": ["-uc", script]}
    async with on_this_machine(tmp_path) as house:
        spec = house.spec(entrypoint=writer, network={"access": "none"})
        house.ask("PUT", "/workloads/w", {"spec": spec})
        house.until_ready("/workloads/w", phase="Ready")
        name = house.ask("POST", "/tenants/alice/claim", {"workload": "w"}).json()["instanceId"]
        url = f"/instances/{name}/logs"

        async def written() -> bool:
            return house.ask("GET", url, params={"tail": 1}).text.startswith("1999 ")

        await eventually(written, 60)
        for query in ({}, {"tail": 1_000_000}):
            lines = house.ask("GET", url, params=query).text.splitlines()
            assert [line.partition(" ")[0] for line in lines] == [str(n) for n in range(2000)]
        assert house.cli("logs", name).stdout.splitlines() == lines


@pytest.mark.slow
async def test_callers_who_wait_are_told_of_a_stop(tmp_path: Path) -> None:
    """A claim and a command under way are 503 in the one shape; a log that is followed ends."""
    async with httpx2.AsyncClient(timeout=60) as http:
        async with on_this_machine(tmp_path) as house:
            for name, more in (("web", {}), ("sick", {"health": {"exec": {"command": ["false"]}}})):
                house.ask("PUT", f"/workloads/{name}", {"spec": house.spec(**more)})
                house.until_ready(f"/workloads/{name}", phase="Ready")
            made = house.ask("POST", "/tenants/alice/claim", {"workload": "web"}).json()
            name, url = made["instanceId"], f"{house.http.base_url}/api/v1"
            begin = ["sh", "-c", "touch /workspace/begun; sleep 1000"]
            claim = http.post(f"{url}/tenants/bob/claim?wait=50", json={"workload": "sick"})
            command = http.post(f"{url}/instances/{name}/exec", json={"command": begin})
            waiting = [asyncio.create_task(call) for call in (claim, command)]
            follow = http.stream("GET", f"{url}/instances/{name}/logs?follow=true")
            log = await follow.__aenter__()

            async def under_way() -> bool:
                known = (await http.get(f"{url}/tenants/bob")).status_code != 404
                return known and not house.run(name, "ls", "/workspace/begun")["exitCode"]

            await eventually(under_way, 30)
            assert not any(call.done() for call in waiting)
        for answer in await asyncio.gather(*waiting):
            assert (answer.status_code, answer.json()["code"]) == (503, "ShuttingDown")
            assert answer.headers["retry-after"]
        with contextlib.suppress(httpx2.RemoteProtocolError):  # it is cut off, and says so
            await log.aread()
        await log.aclose()


def _files(house: House, name: str) -> None:
    """A file written through the API is the tenant's, and the other way round."""
    url = f"/api/v1/instances/{name}/files"
    path = {"path": "/workspace/note.txt"}
    assert house.http.put(url, params=path, content=b"hello").status_code == 200
    assert house.run(name, "cat", "/workspace/note.txt")["stdout"] == "hello"
    house.run(name, "sh", "-c", "echo again >> /workspace/note.txt")
    assert house.http.get(url, params=path).content == b"helloagain\n"
    listed = house.http.get(url, params={"path": "/workspace"}).json()
    assert [entry["name"] for entry in listed["entries"]] == ["note.txt"]
    assert house.http.delete(url, params=path).status_code == 200
    assert house.http.get(url, params=path).status_code == 404
    for wrong in ("/etc/passwd", "/workspace/../etc/passwd", "note.txt"):
        assert house.http.get(url, params={"path": wrong}).status_code in (400, 404), wrong
    assert house.http.get(url).status_code == 400


@pytest.mark.timeout(300)
def test_a_program_that_does_not_exist_is_no_active_claim(house: House) -> None:
    """The claim stays Pending and says that its instance does not come up."""
    spec = house.spec(entrypoint={"cmd": "/no/such/program"}, network={"access": "none"})
    assert house.ask("PUT", "/workloads/ghost", {"spec": spec}).status_code == 201
    claim = {"workload": "ghost"}
    made = house.ask("POST", "/tenants/alice/claim", claim, params={"wait": 3})
    assert (made.status_code, made.json()["phase"]) == (202, "Pending"), made.text
    for _ in range(300):
        detail = house.ask("GET", "/tenants/alice").text
        if "/no/such/program" in detail:
            break
        subprocess.run(["sleep", "0.1"], check=True)
    else:
        pytest.fail(f"it never said why: {detail}")
