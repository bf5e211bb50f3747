"""First stories on a real node: our client makes a Pod and does all with it that tenants need."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cluster.images import BUSYBOX, ECHO

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.exec import Channel
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, NotFound
from tests.waiting import until

pytestmark = pytest.mark.node


def ready(pod: Pod | None) -> bool:
    if pod is None:
        return False
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def started(pod: Pod | None) -> bool:
    return pod is not None and pod.status.phase != "Pending"


def spec(image: str, **container: Any) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": image, **container}],
    }


@pytest.fixture
async def echo(client: Client) -> AsyncIterator[str]:
    """A Ready Pod that answers HTTP on port 8080 and has a shell."""
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    body = {"metadata": {"name": "echo"}, "spec": spec(ECHO, readinessProbe=probe)}
    await client.create(PODS, body)
    await until(client, PODS, "echo", ready)
    yield "echo"


async def test_a_pod_from_birth_to_death(client: Client) -> None:
    """Created, seen Pending, then Ready with an address; deleted with grace; gone."""
    body = {"metadata": {"name": "p"}, "spec": spec(ECHO)}
    created = await client.create(PODS, body)
    assert created.status.phase == "Pending"
    states = await until(client, PODS, "p", ready)
    last = states[-1]
    assert last is not None
    assert last.status.phase == "Running"
    assert last.status.pod_ip.startswith("10.98.")
    assert last.metadata.uid == created.metadata.uid
    await client.delete(PODS, "p")
    seen = await until(client, PODS, "p", lambda pod: pod is None)
    assert any(pod is not None and pod.metadata.deletion_timestamp for pod in seen)
    with pytest.raises(NotFound):
        await client.get(PODS, "p")


async def test_exec_without_a_terminal(client: Client, echo: str) -> None:
    """Both streams arrive apart, and the exit code is the command's."""
    result = await client.pods.run(echo, ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 7)


async def test_exec_round_trip_of_a_mebibyte(client: Client, echo: str) -> None:
    """A mebibyte in comes out unchanged, and the end of input ends the command."""
    data = os.urandom(1 << 20)
    result = await client.pods.run(echo, ["cat"], stdin=data, limit=2 << 20)
    assert result.exit_code == 0
    assert result.stdout == data


async def test_the_end_of_input_is_not_the_end_of_output(client: Client, echo: str) -> None:
    """Closing stdin leaves stdout open: what is computed from the whole input still arrives."""
    async with client.pods.exec(
        echo, ["sh", "-c", "n=$(wc -c); sleep 0.3; echo $n; exit 3"], stdin=True
    ) as session:
        await session.write(b"x" * 1000)
        await session.close_stdin()
        output = await session.read()
        assert output is not None
        assert (output.channel, output.data.strip()) == (Channel.STDOUT, b"1000")
        assert await session.wait() == 3


async def test_exec_with_a_terminal(client: Client, echo: str) -> None:
    """A terminal has the size it is told, echoes what is typed, and has one stream."""
    async with client.pods.exec(echo, ["sh"], stdin=True, tty=True) as session:
        await session.resize(123, 45)
        text = b""

        async def typed(line: bytes, expected: bytes) -> None:
            nonlocal text
            await session.write(line + b"\n")
            while expected not in text:
                output = await session.read()
                assert output is not None
                assert output.channel == Channel.STDOUT
                text += output.data

        async with asyncio.timeout(20):
            await typed(b"test -t 0 && echo is-a-$((1+1))-tty", b"is-a-2-tty")
            # The size travels on a channel of its own and may arrive after what was typed.
            sized = "until [ \"$(stty size)\" = '%s' ]; do :; done; echo si'zed'-%s"
            await typed((sized % ("45 123", "once")).encode(), b"sized-once")
            await session.resize(80, 24)
            await typed((sized % ("24 80", "twice")).encode(), b"sized-twice")
            await session.write(b"exit 5\n")
            assert await session.wait() == 5


async def test_exec_of_nothing(client: Client, echo: str) -> None:
    """A command that is not there is an error that names it, not a hanging session."""
    with pytest.raises(ApiError, match="no-such-command"):
        await client.pods.run(echo, ["no-such-command"])
    with pytest.raises(NotFound):
        await client.pods.run("no-such-pod", ["true"])


async def test_following_a_log(client: Client) -> None:
    """Each line arrives when it is written, and the log ends with the container."""
    wait = "while [ ! -e /tmp/$i ]; do sleep 0.05; done"
    script = f"for i in 0 1 2; do {wait}; echo line $i; done"
    body = {
        "metadata": {"name": "talks"},
        "spec": spec(BUSYBOX, command=["sh", "-c", script]) | {"restartPolicy": "Never"},
    }
    await client.create(PODS, body)
    await until(client, PODS, "talks", started)
    async with asyncio.timeout(30), client.pods.open_log("talks", follow=True) as log:
        for number in range(3):
            await client.pods.run("talks", ["touch", f"/tmp/{number}"])
            assert await anext(log) == b"line %d\n" % number
        assert [piece async for piece in log] == []
    assert await client.pods.log("talks", tail=2) == b"line 1\nline 2\n"


async def test_the_pod_proxy(client: Client, echo: str) -> None:
    """Method, path, query, headers and body reach the Pod's port; its answer comes back."""
    reply = await client.pods.proxy(
        echo,
        8080,
        "/some/path",
        method="POST",
        query=[("a", "1"), ("b", "x y")],
        headers={"x-custom": "yes", "content-type": "text/plain"},
        body=b"hello",
    )
    assert reply.status == 200
    seen = json.loads(reply.body)
    assert (seen["host"], seen["method"], seen["path"]) == (echo, "POST", "/some/path")
    assert seen["body"] == "hello"
    assert seen["query"] in ("a=1&b=x+y", "a=1&b=x%20y")
    assert seen["headers"]["X-Custom"] == ["yes"]
