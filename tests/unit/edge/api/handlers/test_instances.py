"""Instances over HTTP: lists, exec, logs, destroy, and what is refused of them."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from boilerhouse.core import names
from boilerhouse.edge.api.auth import AN_ADMIN
from boilerhouse.edge.api.shares import Shares
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, NotFound
from boilerhouse.platform.kube.wire import Socket
from tests.controllers.operator_fixture import NODE
from tests.unit.edge.api.conftest import Rest, soon
from tests.unit.edge.api.node import flood, hang, missing


@pytest.fixture
async def instance(rest: Rest) -> str:
    """The name of alice's instance."""
    await rest.world.ready_workload()
    answer = await rest.claim("alice")
    name: str = answer.json()["instanceId"]
    return name


async def run(rest: Rest, instance: str, *command: str, **more: Any) -> httpx2.Response:
    return await rest.post(f"/instances/{instance}/exec", {"command": command, **more})


async def test_an_instance_is_shown_as_s1_writes_it(rest: Rest, instance: str) -> None:
    """Every field of S1 is there, in the list and by name alike."""
    [listed] = (await rest.get("/instances")).json()
    one = (await rest.get(f"/instances/{instance}")).json()
    assert listed["name"] == one["name"] == instance
    assert (one["phase"], one["tenantId"], one["workloadRef"]) == ("Running", "alice", "web")
    assert one["ip"].startswith("10.0.")
    assert one["labels"][names.MANAGED] == "true"
    assert one["createdAt"].endswith("Z")
    assert one["claimedAt"].endswith("Z")


async def test_only_managed_pods_are_instances(rest: Rest) -> None:
    """Any other Pod of the namespace does not exist here: not to look at, run in or destroy."""
    spec = {"containers": [{"name": "c", "image": "x"}]}
    await rest.world.client.create(PODS, {"metadata": {"name": "operator"}, "spec": spec})
    assert (await rest.get("/instances")).json() == []
    for answer in (
        await rest.get("/instances/operator"),
        await rest.get("/instances/operator/logs"),
        await rest.post("/instances/operator/destroy"),
        await run(rest, "operator", "ls"),
    ):
        assert answer.status_code == 404
        assert "'operator'" in answer.json()["error"]
    assert (await rest.world.client.get(PODS, "operator")).metadata.name == "operator"


async def test_names_that_name_nothing(rest: Rest) -> None:
    """Unknown and impossible names are 404 or 400, never 500."""
    for name in ("nobody", "..", "%2e%2e", "a%2Fb", "x" * 5000, "%00", "%F0%9F%98%80"):
        assert (await rest.get(f"/instances/{name}")).status_code in (400, 404), name
        assert (await run(rest, name, "ls")).status_code in (400, 404), name


async def test_exec_returns_output_and_exit_code(rest: Rest, instance: str) -> None:
    """stdout, stderr, the exit code, and that nothing was cut off."""
    answer = await run(rest, instance, "echo", "hello", "world")
    assert answer.status_code == 200
    assert answer.json() == {
        "exitCode": 0, "stdout": "hello world\n", "stderr": "", "truncated": False,
    }  # fmt: skip


async def test_exec_feeds_stdin_and_sets_env(rest: Rest, instance: str) -> None:
    """stdin reaches the command with its end; env goes through the program `env`."""
    answer = await run(rest, instance, "cat", stdin="héllo")
    assert answer.json()["stdout"] == "héllo"
    answer = await run(rest, instance, "printenv", env={"A": "1 2", "B": "x"})
    assert answer.json()["stdout"] == "A=1 2 B=x printenv\n"
    assert (await run(rest, instance, "ls", env={"A=B": "x"})).status_code == 400


@pytest.mark.slow
async def test_a_command_waits_until_the_instance_knows_whose_it_is(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim does not wait for the identity files, what runs in it does; but not for ever."""
    rest.world.identities.unreachable = True
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    running = asyncio.create_task(run(rest, name, "echo", "hi"))
    await asyncio.sleep(0.1)
    assert rest.node.running == 0 and not running.done()
    rest.world.identities.unreachable = False
    assert (await running).json()["stdout"] == "hi\n"
    assert [told for told, _ in rest.world.identities.told] == [name]
    rest.world.identities.unreachable = True
    monkeypatch.setattr("boilerhouse.edge.api.services.IDENTITY_WAIT", timedelta(seconds=0.05))
    name = (await rest.claim("bob")).json()["instanceId"]
    assert (await run(rest, name, "echo", "hi")).status_code == 200


async def test_a_missing_program_is_an_answer(rest: Rest, instance: str) -> None:
    """200 with 127 and the shell's words, whether the node says it as an exit or as an error."""
    rest.node.programs["gone"] = missing
    for program in ("nope", "gone"):
        answer = await run(rest, instance, program)
        assert answer.status_code == 200
        assert answer.json()["exitCode"] == 127
        assert f"{program}: command not found" in answer.json()["stderr"]


async def test_output_is_capped(rest: Rest, instance: str) -> None:
    """A flood keeps its first MiB per stream, says `truncated`, and still ends by itself."""
    body = (await run(rest, instance, "flood")).json()
    assert len(body["stdout"]) == 1 << 20
    assert (body["exitCode"], body["stderr"], body["truncated"]) == (3, "done\n", True)


@pytest.mark.slow
async def test_a_command_that_does_not_end_is_ended(rest: Rest, instance: str) -> None:
    """504 with what was written so far, and whether that is all; the node is told to let go."""
    answer = await run(rest, instance, "hang", timeoutSeconds=0.2)
    assert (answer.status_code, answer.json()["code"]) == (504, "CommandTimeout")
    assert answer.json()["details"] == {"stdout": "begun\n", "stderr": "", "truncated": False}
    await soon(lambda: rest.node.running == 0)

    async def endless(socket: Socket, argv: list[str]) -> int:
        while True:
            await flood(socket, argv)

    rest.node.programs["yes"] = endless
    details = (await run(rest, instance, "yes", timeoutSeconds=0.5)).json()["details"]
    assert (len(details["stdout"]), details["truncated"]) == (1 << 20, True)


async def test_exec_in_a_dead_instance_is_a_conflict(rest: Rest, instance: str) -> None:
    """409 naming the phase, for what has ended and for what has not begun."""
    await rest.world.client.merge_patch(
        PODS, instance, {"status": {"phase": "Failed"}}, subresource="status"
    )
    answer = await run(rest, instance, "ls")
    assert (answer.status_code, answer.json()["code"]) == (409, "InstanceNotRunning")
    assert "Failed" in answer.json()["error"]


async def test_exec_in_an_instance_that_is_just_killed_is_a_conflict(
    rest: Rest, instance: str
) -> None:
    """Out of memory, say: 409 and what happened, not a failure of the cluster."""

    async def killed(socket: Socket, argv: list[str]) -> int:
        raise ApiError("the container ended, or was killed, before it could be entered")

    rest.node.programs["ls"] = killed
    answer = await run(rest, instance, "ls")
    assert (answer.status_code, answer.json()["code"]) == (409, "InstanceNotRunning")
    assert "was killed" in answer.json()["error"]


async def test_exec_in_a_halted_instance_is_a_conflict(rest: Rest, instance: str) -> None:
    """Its node says so: 409 with what to do, not a failure of the cluster."""

    async def halted(socket: Socket, argv: list[str]) -> int:
        raise ApiError("container tenant is halted: it is being saved or restored")

    rest.node.programs["ls"] = halted
    answer = await run(rest, instance, "ls")
    assert (answer.status_code, answer.json()["code"]) == (409, "InstanceHalted")
    assert "saved or restored" in answer.json()["error"]
    assert ". Claim, and use" in answer.json()["error"]
    lines = await rest.post(
        f"/instances/{instance}/exec",
        {"command": ["ls"]},
        headers={"accept": "application/x-ndjson"},
    )
    assert json.loads(lines.text)["code"] == "InstanceHalted"


@pytest.mark.slow
async def test_bad_commands_are_400(rest: Rest, instance: str) -> None:
    """No command, no strings, a NUL, a timeout out of range, an unknown field."""
    bodies: list[dict[str, Any]] = [
        {}, {"command": []}, {"command": "ls"}, {"command": [1]}, {"command": ["a\0b"]},
        {"command": [""]}, {"command": ["ls"], "timeoutSeconds": 0},
        {"command": ["ls"], "timeoutSeconds": 1e9}, {"command": ["ls"], "tty": True},
    ]  # fmt: skip
    for body in bodies:
        answer = await rest.post(f"/instances/{instance}/exec", body)
        assert answer.status_code == 400, (body, answer.text)


@pytest.mark.slow
async def test_too_many_commands_are_429(rest: Rest, instance: str) -> None:
    """Who finds no free place is told when to come again."""
    crowd = Shares("commands", 1)
    object.__setattr__(rest.services, "commands", crowd)
    with crowd.place(AN_ADMIN):
        answer = await run(rest, instance, "echo")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert (await run(rest, instance, "echo")).status_code == 200


@pytest.mark.slow
async def test_exec_streams_lines_of_json(rest: Rest, instance: str) -> None:
    """With Accept: application/x-ndjson the pieces come as they are written, the code last."""
    accept = {"accept": "application/x-ndjson"}
    answer = await rest.http.post(
        f"/api/v1/instances/{instance}/exec",
        json={"command": ["cat"], "stdin": "hi"},
        headers=accept,
    )
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == [{"stream": "stdout", "data": "hi"}, {"exitCode": 0}]
    answer = await rest.http.post(
        f"/api/v1/instances/{instance}/exec",
        json={"command": ["hang"], "timeoutSeconds": 0.2},
        headers=accept,
    )
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0] == {"stream": "stdout", "data": "begun\n"}
    assert lines[-1]["code"] == "CommandTimeout"


AWKWARD = b"x\xff\xfe\0\r\n\xe2\x80\xa8y\xc2\x85\xe2\x80"


@pytest.mark.slow
async def test_exec_in_base64_is_exact(rest: Rest, instance: str) -> None:
    """Input and output of any bytes, whole, streamed, and of a command that is late."""

    async def late(socket: Socket, argv: list[str]) -> int:
        await socket.send(b"\x02" + AWKWARD)
        return await hang(socket, argv)

    rest.node.programs["late"] = late
    text = base64.b64encode(AWKWARD).decode()
    answer = await run(rest, instance, "cat", stdin=text, encoding="base64")
    assert base64.b64decode(answer.json()["stdout"]) == AWKWARD
    lines = await rest.post(
        f"/instances/{instance}/exec",
        {"command": ["cat"], "stdin": text, "encoding": "base64"},
        headers={"accept": "application/x-ndjson"},
    )
    said = [json.loads(line) for line in lines.content.split(b"\n") if line]
    assert b"".join(base64.b64decode(line["data"]) for line in said[:-1]) == AWKWARD
    answer = await run(rest, instance, "late", encoding="base64", timeoutSeconds=0.2)
    assert (answer.status_code, answer.json()["code"]) == (504, "CommandTimeout")
    assert base64.b64decode(answer.json()["details"]["stderr"]) == AWKWARD
    for wrong in ("é", "a", "a!=="):
        answer = await run(rest, instance, "cat", stdin=wrong, encoding="base64")
        assert (answer.status_code, "not base64" in answer.text) == (400, True), wrong
    assert (await run(rest, instance, "ls", encoding="utf-7")).status_code == 400


async def test_text_ends_with_what_could_not_be_read(rest: Rest, instance: str) -> None:
    """Half a character at the end of streamed text is shown as U+FFFD, not left out."""

    async def half(socket: Socket, argv: list[str]) -> int:
        await socket.send(b"\x01a\xe2\x80")
        return 0

    rest.node.programs["half"] = half
    lines = await rest.post(
        f"/instances/{instance}/exec",
        {"command": ["half"]},
        headers={"accept": "application/x-ndjson"},
    )
    said = [json.loads(line) for line in lines.content.split(b"\n") if line]
    assert "".join(line["data"] for line in said[:-1]) == "a\ufffd"


@pytest.mark.slow
async def test_hanging_up_ends_the_command(rest: Rest, instance: str) -> None:
    """A caller that goes away during exec or logs -f leaves nothing running."""
    async with rest.served() as address, httpx2.AsyncClient(base_url=address) as http:
        url = f"/api/v1/instances/{instance}"
        for begin in (
            http.stream("GET", f"{url}/logs", params={"follow": "true"}),
            http.stream(
                "POST",
                f"{url}/exec",
                json={"command": ["hang"]},
                headers={"accept": "application/x-ndjson"},
            ),
        ):
            async with begin as answer:
                async for _ in answer.aiter_bytes():
                    break
                assert rest.node.running == 1
            await soon(lambda: rest.node.running == 0)
        plain = asyncio.create_task(http.post(f"{url}/exec", json={"command": ["hang"]}))
        await soon(lambda: rest.node.running == 1)
        plain.cancel()
        await soon(lambda: rest.node.running == 0)
        await asyncio.gather(plain, return_exceptions=True)


async def test_logs_are_text(rest: Rest, instance: str) -> None:
    """Whole, the last lines, or since a time; a number that is none is 400."""
    answer = await rest.get(f"/instances/{instance}/logs")
    assert answer.text == "one\ntwo\nthree\n"
    assert answer.headers["content-type"].startswith("text/plain")
    assert (await rest.get(f"/instances/{instance}/logs?tail=1")).text == "three\n"
    for since in ("10m", "90", "1h30m", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00+02:00"):
        answer = await rest.get(f"/instances/{instance}/logs", params={"since": since})
        assert answer.status_code == 200, since
        assert any(key == "sinceTime" for key, _ in rest.node.queries[-1])
    for query in ("tail=x", "tail=-1", "since=yesterday", "since=", "follow=perhaps"):
        answer = await rest.get(f"/instances/{instance}/logs?{query}")
        assert answer.status_code == 400, query


async def test_destroy_deletes_the_pod_at_once(rest: Rest, instance: str) -> None:
    """The Pod is gone with the answer; a second destroy is 404."""
    answer = await rest.post(f"/instances/{instance}/destroy")
    assert (answer.status_code, answer.json()["status"]) == (200, "destroyed")
    with pytest.raises(NotFound):
        await rest.world.client.get(PODS, instance)
    assert (await rest.post(f"/instances/{instance}/destroy")).status_code == 404
    again = await rest.claim("alice")
    assert again.status_code == 201
    assert again.json()["instanceId"] != instance


async def test_a_node_that_is_away_is_503(rest: Rest, instance: str) -> None:
    """Not the caller's fault, and worth trying again."""
    del rest.server.nodes[NODE]
    answer = await run(rest, instance, "ls")
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert (await rest.get(f"/instances/{instance}/logs")).status_code == 503


async def test_files_need_the_helper(rest: Rest, instance: str) -> None:
    """503 where there is none, 404 for an instance that is none, 400 without a path."""
    url = f"/instances/{instance}/files"
    assert (await rest.get(url, params={"path": "/a"})).status_code == 503
    assert (await rest.get("/instances/nobody/files", params={"path": "/a"})).status_code == 404
    assert (await rest.get(url)).status_code == 400
