"""The commands that talk to a running house, against a real one with a pretended kubelet."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from boilerhouse.cli.app import app
from boilerhouse.cli.apply import warnings_of
from boilerhouse.cli.rest import Rest as Caller
from boilerhouse.cli.why import decided
from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import API_VERSION, claim_name
from boilerhouse.embedded.apiserver.http.pki import ensure
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.kube.wire import Socket
from boilerhouse.tenancy.claims.objects import CLAIMS
from tests.controllers.operator_fixture import SPEC
from tests.unit.edge.api.conftest import KEY, Rest, opened_rest, soon
from tests.unit.edge.api.test_told import crashing

pytestmark = pytest.mark.slow

FILE = yaml.safe_dump_all(
    [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "db"},
            "stringData": {"password": "hunter2"},
        },
        None,
        {
            "apiVersion": "boilerhouse.dev/v1alpha1",
            "kind": "BoilerhouseWorkload",
            "metadata": {"name": "web", "labels": {"team": "a"}},
            "spec": SPEC,
        },
    ]
)


@dataclass
class Shell:
    """The program, pointed at a house."""

    rest: Rest
    address: str
    tmp: Path

    @property
    def environ(self) -> dict[str, str]:
        return {"BOILERHOUSE_URL": self.address, "BOILERHOUSE_API_KEY": KEY}

    async def run(self, *arguments: str, stdin: str = "", **environ: str) -> Result:
        """Run it in a thread: the house it talks to lives on this loop."""
        env = self.environ | environ
        return await asyncio.to_thread(
            CliRunner().invoke, app, list(arguments), input=stdin, env=env
        )

    async def workload(self) -> None:
        await self.rest.world.ready_workload()

    async def instance(self) -> str:
        await self.workload()
        result = await self.run("claim", "alice", "web", "-o", "json")
        assert result.exit_code == 0, result.output
        name: str = json.loads(result.stdout)["instanceId"]
        return name


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with opened_rest(tmp_path / "data", KEY) as rest, rest.served() as address:
        yield Shell(rest, address, tmp_path)


async def test_a_status_that_is_written_meanwhile_is_no_change(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object whose spec stays as it is is unchanged, whatever its controller writes."""
    file = shell.tmp / "all.yaml"
    file.write_text(FILE)
    await shell.run("apply", "-f", str(file))
    await shell.rest.world.settles(lambda: _ready(shell))
    call = Caller.call

    def answered_late(rest: Caller, method: str, path: str, *args: Any, **given: Any) -> Any:
        status, body = call(rest, method, path, *args, **given)
        newer = {"resourceVersion": "999999"} if method == "PUT" and "workloads" in path else {}
        return status, {**body, **newer}

    monkeypatch.setattr(Caller, "call", answered_late)
    result = await shell.run("apply", "-f", str(file))
    assert result.stdout == "secret/db unchanged\nworkload/web unchanged\n"


async def test_apply_creates_and_then_finds_nothing_to_do(shell: Shell) -> None:
    """From a file and from stdin, several documents, Secrets included."""
    file = shell.tmp / "all.yaml"
    file.write_text(FILE)
    result = await shell.run("apply", "-f", str(file))
    assert (result.exit_code, result.stdout) == (0, "secret/db created\nworkload/web created\n")
    stored = await shell.rest.world.client.get(SECRETS, "db")
    assert stored.data == {"password": b"hunter2"}
    await shell.rest.world.settles(lambda: _ready(shell))
    result = await shell.run("apply", "-f", "-", stdin=FILE)
    assert result.stdout == "secret/db unchanged\nworkload/web unchanged\n"
    changed = FILE.replace("memoryMb: 64", "memoryMb: 65").replace("hunter2", "hunter3")
    result = await shell.run("apply", "-f", "-", stdin=changed)
    assert result.stdout == "secret/db configured\nworkload/web configured\n"


async def _ready(shell: Shell) -> bool:
    return "Ready" in (await shell.run("get", "workload", "web")).stdout


async def test_apply_reads_all_before_it_sends_any(shell: Shell) -> None:
    """A document that cannot be applied is named, and nothing has happened."""
    for text, words in (
        (FILE + "\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: x}", "document 4: kind 'Pod'"),
        (FILE + "\n---\n- 1", "document 4: not an object"),
        ("a: [", "line 1: not YAML or JSON"),
        ("", "no object"),
        ("kind: Secret\napiVersion: v1", "metadata.name is missing"),
        ("kind: Secret\napiVersion: v1\nmetadata: {name: yes}", "name is not a string, but True"),
        (
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, uid: u, finalizers: [a/b]}\nx: 1",
            "ConfigMap x: x, metadata.finalizers cannot be applied",
        ),
        ("kind: Secret\napiVersion: v2\nmetadata: {name: x}", "apiVersion v1"),
        ("kind: Secret\napiVersion: v1\nmetadata: {name: x, namespace: other}", "one namespace"),
    ):
        result = await shell.run("apply", "-f", "-", stdin=text)
        assert result.exit_code == 1
        assert words in result.stderr, result.stderr
        assert result.stdout == ""
    missing = await shell.run("apply", "-f", "/nowhere")
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)


async def test_apply_lists_everything_wrong_and_goes_on(shell: Shell) -> None:
    """Exit code 1 with each mistake on its line; the other objects are applied."""
    bad = FILE.replace("memoryMb: 64", "memoryMb: none").replace("vcpus: 0.5", "vcpus: 0")
    result = await shell.run("apply", "-f", "-", stdin=bad)
    assert result.exit_code == 1
    assert "secret/db created" in result.stdout
    assert result.stderr.startswith("boilerhouse: workload/web: ")
    assert "\n  spec.resources.memoryMb" in result.stderr
    assert "\n  spec.resources.vcpus" in result.stderr


async def test_apply_says_what_cannot_work(shell: Shell) -> None:
    """It is created, and told with the reason and exit code 1; so is a trigger."""
    bad = {**SPEC, "network": {"access": "restricted", "allowlist": ["example.com"]}}
    trigger = {"type": "cron", "workloadRef": "bad", "tenant": {"static": "alice"}}
    text = yaml.safe_dump_all(
        {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in (
            ("BoilerhouseTrigger", "nightly", trigger),
            ("BoilerhouseWorkload", "bad", bad),
        )
    )  # fmt: skip
    result = await shell.run("apply", "-f", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (
        1,
        "trigger/nightly created\nworkload/bad created\n",
    )
    first, second = result.stderr.splitlines()
    assert first.startswith("boilerhouse: trigger/nightly is created, but: triggers are not built")
    assert second.startswith("boilerhouse: workload/bad is created, but: spec.network.access: rest")


def test_apply_passes_warnings_on() -> None:
    """What does not keep an object from working, and should be known all the same."""
    enforced = {"type": "LimitsEnforced", "status": "False", "message": "no cgroup"}
    missing = {"type": "Degraded", "status": "True", "message": "the image went"}
    ready = {"type": "Ready", "status": "True", "message": ""}
    assert list(warnings_of({"conditions": [ready, enforced, missing]})) == [
        "no cgroup",
        "the image went",
    ]
    assert list(warnings_of({})) == []


async def test_get_in_every_format(shell: Shell) -> None:
    """Tables for people, JSON and YAML for programs, names for scripts."""
    name = await shell.instance()
    table = (await shell.run("get", "instances")).stdout
    assert table.splitlines()[0].split()[:2] == ["NAME", "TENANT"]
    assert name in table and "alice" in table
    assert name in (await shell.run("get", "tenants")).stdout
    assert (
        json.loads((await shell.run("get", "instance", name, "-o", "json")).stdout)["name"] == name
    )
    shown = yaml.safe_load((await shell.run("get", "bhw", "web", "-o", "yaml")).stdout)
    assert shown["spec"]["version"] == "1"
    assert (await shell.run("get", "Workload", "-o", "name")).stdout == "workload/web\n"
    empty = await shell.run("get", "pools")
    assert (empty.exit_code, empty.stdout) == (0, "")
    missing = await shell.run("get", "pools", "p")
    assert (missing.exit_code, "'p'" in missing.stderr) == (1, True)
    wrong = await shell.run("get", "nonsense")
    assert (wrong.exit_code, "none of workloads" in wrong.stderr) == (2, True)


async def test_what_get_prints_as_yaml_can_be_applied(shell: Shell) -> None:
    """One object and several, back into the house they came from, and into an empty one."""
    await shell.run("apply", "-f", "-", stdin=FILE)
    other = FILE.replace("name: web", "name: other")
    pool = {
        "apiVersion": API_VERSION,
        "kind": "BoilerhousePool",
        "metadata": {"name": "warm", "annotations": {"note": "é: 1"}},
        "spec": {"workloadRef": "web", "size": 0},
    }
    assert (await shell.run("apply", "-f", "-", stdin=other)).exit_code == 0
    assert (await shell.run("apply", "-f", "-", stdin=yaml.safe_dump(pool))).exit_code == 0
    one = (await shell.run("get", "workload", "web", "-o", "yaml")).stdout
    shown = yaml.safe_load(one)
    assert (shown["kind"], shown["metadata"]["labels"]) == ("BoilerhouseWorkload", {"team": "a"})
    again = await shell.run("apply", "-f", "-", stdin=one)
    assert (again.exit_code, again.stdout.split()[0]) == (0, "workload/web"), again.stderr
    several = (await shell.run("get", "workloads", "-o", "yaml")).stdout
    again = await shell.run("apply", "-f", "-", stdin=several)
    told = [line.split() for line in again.stdout.splitlines()]
    assert [name for name, _ in told] == ["workload/other", "workload/web"], again.stderr
    assert "created" not in again.stdout
    pools = (await shell.run("get", "pools", "-o", "yaml")).stdout
    shell.rest.http.headers["authorization"] = f"Bearer {KEY}"
    for path in ("pools/warm", "workloads/other"):
        assert (await shell.rest.http.delete(f"/api/v1/{path}")).status_code < 300
    await shell.rest.world.settles(lambda: _gone(shell, "pools/warm", "workloads/other"))
    for text, said in ((several, "workload/other created"), (pools, "pool/warm created")):
        made = await shell.run("apply", "-f", "-", stdin=text)
        assert (made.exit_code, said in made.stdout) == (0, True), made.stderr
    back = (await shell.rest.get("/pools/warm")).json()
    assert (back["annotations"]["note"], back["spec"]["size"]) == ("é: 1", 0)


async def _gone(shell: Shell, *paths: str) -> bool:
    return all([(await shell.rest.get(f"/{path}")).status_code == 404 for path in paths])


async def test_an_endpoint_without_a_port_is_its_host(shell: Shell) -> None:
    """Nothing is said of a port where there is none."""
    await shell.rest.world.workload("quiet", network={"access": "none"})
    assert (await shell.run("claim", "bob", "quiet")).exit_code == 0
    _, row = (await shell.run("get", "tenants")).stdout.splitlines()
    assert not row.rstrip().endswith(":")


async def test_claim_and_release(shell: Shell) -> None:
    """One line each; a claim that is not there yet is exit code 3."""
    await shell.workload()
    result = await shell.run("claim", "alice", "web")
    assert result.exit_code == 0
    assert "(cold, " in result.stdout and ":8080" in result.stdout
    assert "(existing, " in (await shell.run("claim", "alice", "web")).stdout
    result = await shell.run("release", "alice", "web")
    assert (result.exit_code, result.stdout) == (0, "alice's web is released\n")
    assert (await shell.run("release", "alice", "web")).exit_code == 1
    shell.rest.world.kubelet.behaviour = lambda *_: None
    pending = await shell.run("claim", "é b", "web", "--wait", "0")
    assert (pending.exit_code, "Pending" in pending.stderr) == (3, True)


async def test_exec_passes_the_exit_code_on(shell: Shell) -> None:
    """Output to the right streams, the command's own code, a missing program 127."""
    name = await shell.instance()
    result = await shell.run("exec", name, "--", "echo", "-n", "hi")
    assert (result.exit_code, result.stdout) == (0, "-n hi\n")
    result = await shell.run("exec", name, "--", "flood")
    assert (result.exit_code, result.stderr) == (3, "done\n")
    assert (await shell.run("exec", name, "--", "nope")).exit_code == 127
    result = await shell.run("exec", "nobody", "--", "ls")
    assert (result.exit_code, "'nobody'" in result.stderr) == (1, True)
    result = await shell.run("exec", name, "-t", "--", "ls")
    assert (result.exit_code, "terminal" in result.stderr) == (2, True)


async def program(shell: Shell, *arguments: str, **streams: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "boilerhouse.main", *arguments),
        env=os.environ | shell.environ,
        **streams,  # type: ignore[arg-type]  # mypy cannot see that they are the streams
    )


@pytest.mark.processes
async def test_exec_passes_input_on(shell: Shell) -> None:
    """With -i a pipe reaches the command, with its end."""
    name = await shell.instance()
    pipe = asyncio.subprocess.PIPE
    process = await program(shell, "exec", "-i", name, "--", "cat", stdin=pipe, stdout=pipe)
    out, _ = await asyncio.wait_for(process.communicate(b"some input"), 30)
    assert (process.returncode, out) == (0, b"some input")
    process = await program(
        shell, "exec", "-i", "nobody", "--", "cat", stdin=pipe, stdout=pipe, stderr=pipe
    )
    _, err = await asyncio.wait_for(process.communicate(b""), 30)
    assert process.returncode == 1
    assert err == b"boilerhouse: there is no instance named 'nobody'\n"


@pytest.mark.processes
@pytest.mark.parametrize("options", [(), ("-i",)])
async def test_exec_prints_bytes_as_they_are(shell: Shell, options: tuple[str, ...]) -> None:
    """Binary, U+2028, U+0085, carriage returns, no last newline: the same with -i and without."""
    awkward = b"x\xff\xfe\0\r\n\xe2\x80\xa8y\xc2\x85z\xe2\x80"

    async def awkwardly(socket: Socket, argv: list[str]) -> int:
        for at in range(0, len(awkward), 3):
            await socket.send(b"\x01" + awkward[at : at + 3])
        await socket.send(b"\x02" + awkward)
        return 5

    shell.rest.node.programs["awkward"] = awkwardly
    name = await shell.instance()
    pipe = asyncio.subprocess.PIPE
    process = await program(
        shell, "exec", *options, name, "--", "awkward", stdin=pipe, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(process.communicate(b""), 30)
    assert (process.returncode, out, err) == (5, awkward, awkward)


@pytest.mark.processes
@pytest.mark.parametrize("given", ["a file", "nothing", "closed"])
async def test_exec_takes_any_input(shell: Shell, given: str) -> None:
    """With -i a file, /dev/null and no stdin at all reach the command, with their end."""
    name = await shell.instance()
    file = shell.tmp / "input"
    file.write_bytes(bytes(range(256)) * 1024)
    source = {"a file": f"<{file}", "nothing": "</dev/null", "closed": "<&-"}[given]
    command = f"{sys.executable} -m boilerhouse.main exec -i {name} -- cat {source}"
    process = await asyncio.create_subprocess_shell(
        command, env=os.environ | shell.environ, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert out == (file.read_bytes() if given == "a file" else b"")


@pytest.mark.processes
async def test_exec_says_what_is_wrong_with_its_input(shell: Shell) -> None:
    """Input that cannot be read ends the command with a sentence."""
    name = await shell.instance()
    unreadable = os.open(shell.tmp / "out", os.O_WRONLY | os.O_CREAT)
    try:
        process = await program(
            shell, "exec", "-i", name, "--", "cat", stdin=unreadable, stderr=asyncio.subprocess.PIPE
        )
    finally:
        os.close(unreadable)
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, err) == (1, b"boilerhouse: stdin: Bad file descriptor\n")


@pytest.mark.processes
async def test_exec_with_a_terminal(shell: Shell) -> None:
    """-it gives the command raw keys and the terminal's size, and ours back afterwards."""
    name = await shell.instance()
    sizes: list[bytes] = []

    async def shellish(socket: Socket, argv: list[str]) -> int:
        while (message := await socket.receive()) is not None:
            if message[:1] == b"\x04":
                sizes.append(message[1:])
            elif message[:1] == b"\x00":
                if b"\x04" in message[1:]:
                    return 7
                await socket.send(b"\x01<" + message[1:] + b">")
        return 0

    shell.rest.node.programs["sh"] = shellish
    master, slave = pty.openpty()
    try:
        process = await program(
            shell, "exec", "-it", name, "--", "sh", stdin=slave, stdout=slave, stderr=slave
        )
        await soon(lambda: bool(sizes), 30)
        os.write(master, b"a\x03")  # Ctrl-C is the command's, too
        seen = b""
        while b"\x03" not in seen:
            seen += await asyncio.to_thread(os.read, master, 100)
        assert b"a" in seen
        os.write(master, b"\x04")
        assert await asyncio.wait_for(process.wait(), 30) == 7
        assert json.loads(sizes[0]).keys() == {"Width", "Height"}
    finally:
        os.close(master)
        os.close(slave)


async def test_logs(shell: Shell) -> None:
    """Whole, the last lines, and a since that cannot be read."""
    name = await shell.instance()
    assert (await shell.run("logs", name)).stdout == "one\ntwo\nthree\n"
    assert (await shell.run("logs", name, "--tail", "1", "--since", "10m")).stdout == "three\n"
    shell.rest.node.last_life = ["before"]
    assert (await shell.run("logs", name, "--previous")).stdout == "before\n"
    wrong = await shell.run("logs", name, "--since", "yesterday")
    assert (wrong.exit_code, "yesterday" in wrong.stderr) == (1, True)


async def test_what_is_wrong_is_told(shell: Shell) -> None:
    """By claim, get and why: the cause, the count, and the command that shows the log."""
    name = await shell.instance()
    await shell.rest.world.kubelet.behave(crashing)
    claim = claim_name("alice", "web")
    await shell.rest.world.until(CLAIMS, claim, lambda c: "crashed" in c.status.detail)
    words = f"crashed 3 times: exit code 7; see `boilerhouse logs {name} --previous`"
    again = await shell.run("claim", "alice", "web")
    assert again.exit_code == 3
    assert again.stderr == f"alice's instance {name} of web cannot be used: {words}\n"
    for kind in ("claims", "instances", "tenants"):
        assert words in (await shell.run("get", kind)).stdout
    assert "RESTARTS" in (await shell.run("get", "instances")).stdout
    assert f"wait: {words}" in (await shell.run("why", f"claim/{claim}")).stdout


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            {"verb": "Wait", "why": "x", "again_in": "PT179.028514S"},
            "wait: x (look again in 3 min)",
        ),
        ({"verb": "Wait", "why": "x", "again_in": "PT4.9S"}, "wait: x (look again in 4.9 s)"),
        ({"verb": "Wait", "why": "x", "again_in": "PT7200S"}, "wait: x (look again in 2 h)"),
        ({"verb": "Wait", "why": "x", "again_in": "soon"}, "wait: x (look again in soon)"),
        ({"verb": "Wait", "why": "x"}, "wait: x"),
        ({"verb": "Do", "steps": [{"verb": "AddFinalizer"}]}, "do: add finalizer"),
    ],
)
def test_why_is_told_in_words(plan: dict[str, object], words: str) -> None:
    """Durations and verbs as people say them."""
    assert decided(plan) == words


async def test_failures_say_what_to_do_next(shell: Shell) -> None:
    """One line: nobody there, no key, a wrong key, no such scheme. The key is never printed."""
    nobody = await shell.run("get", "pools", BOILERHOUSE_URL="http://127.0.0.1:9")
    assert nobody.exit_code == 1
    assert "boilerhouse up" in nobody.stderr and "BOILERHOUSE_URL" in nobody.stderr
    assert nobody.stderr.count("\n") == 1
    keyless = await shell.run("get", "pools", BOILERHOUSE_API_KEY="")
    assert "set BOILERHOUSE_API_KEY" in keyless.stderr
    wrong = await shell.run("get", "pools", BOILERHOUSE_API_KEY="sesame")
    assert wrong.exit_code == 1
    assert "sesame" not in wrong.output
    scheme = await shell.run("get", "pools", BOILERHOUSE_URL="ftp://x")
    assert scheme.exit_code == 2
    unknown = await shell.run("claim", "alice", "nothing")
    assert (unknown.exit_code, "'nothing'" in unknown.stderr) == (1, True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://nowhere.invalid:3000", "nowhere.invalid is not known"),
        ("http://127.0.0.1:9", "nobody answers"),
    ],
)
async def test_what_keeps_us_from_connecting_is_said(shell: Shell, url: str, words: str) -> None:
    """A name that is not known is no server that does not run."""
    failed = await shell.run("get", "pools", BOILERHOUSE_URL=url)
    assert (failed.exit_code, words in failed.stderr) == (1, True), failed.stderr


async def test_tls_that_fails_is_said(shell: Shell, tmp_path: Path) -> None:
    """A certificate that nobody vouches for, and a server that speaks plain HTTP."""
    pki = ensure(tmp_path / "pki", SystemClock())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki.server)

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        failed = await shell.run("get", "pools", BOILERHOUSE_URL=f"https://127.0.0.1:{port}")
    assert (failed.exit_code, "is not trusted" in failed.stderr) == (1, True), failed.stderr
    plain = shell.address.replace("http://", "https://")
    failed = await shell.run("get", "pools", BOILERHOUSE_URL=plain)
    assert (failed.exit_code, "is it http://?" in failed.stderr) == (1, True), failed.stderr


@pytest.mark.parametrize("body", [b"{}", b'{"items": []}', b"[1]", b'"hello"', b'[{"a": 1}]'])
async def test_some_other_server_is_not_taken_for_ours(shell: Shell, body: bytes) -> None:
    """JSON alone does not make a Boilerhouse: no empty table is printed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        got = await shell.run("get", "pools", BOILERHOUSE_URL=f"http://127.0.0.1:{port}")
    assert (got.exit_code, got.stdout, "is it one?" in got.stderr) == (1, "", True), got.stderr


async def test_a_slash_in_a_name_is_said(shell: Shell) -> None:
    """Before anything is sent, and by the name."""
    failed = await shell.run("logs", "claim/x")
    assert (failed.exit_code, "'claim/x' cannot be a name" in failed.stderr) == (2, True)
