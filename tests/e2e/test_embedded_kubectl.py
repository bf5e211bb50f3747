"""kubectl and a Pod that really runs: apply, wait, exec, logs, attach, cp-like pipes, delete."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.embedded_fixture import Scene
from tests.e2e.kubectl import Kubectl, binary
from tests.e2e.tenants import pod, server, sh

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_kubectl_with_a_running_pod(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What people type works on an instance of the embedded kubelet."""
    kubectl = Kubectl(binary(), scene.world.kubeconfig, tmp_path_factory.mktemp("home"))

    async def run(*arguments: str, stdin: object = None) -> str:
        return await asyncio.to_thread(kubectl, *arguments, stdin=stdin)

    await run(
        "apply", "-f-", stdin=pod("web", server("hello"), sh("echo side; cat", "side", stdin=True))
    )
    await run("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
    row = (await run("get", "pod", "web", "-o", "wide")).splitlines()[1].split()
    assert row[1:4] == ["2/2", "Running", "0"]
    assert "boilerhouse" in row
    assert (await run("get", "nodes")).splitlines()[1].split()[:2] == ["boilerhouse", "Ready"]
    assert await run("exec", "web", "-c", "main", "--", "echo", "a b") == "a b\n"
    assert await run("exec", "-i", "web", "-c", "side", "--", "cat", stdin="piped") == "piped"
    done = await asyncio.to_thread(
        kubectl.run, "exec", "web", "-c", "side", "--", "sh", "-c", "exit 9"
    )
    assert done.returncode == 9
    for arguments, reason in (
        (
            ("exec", "web", "-c", "nosuch", "--", "true"),
            "container nosuch is not valid for pod web",
        ),
        (("port-forward", "web", "0:8080"), "port-forward: not supported here, connect to the Pod"),
    ):
        assert reason in await asyncio.to_thread(kubectl, *arguments, fails=True)
    old = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
    told = await asyncio.to_thread(
        kubectl, "exec", "web", "-c", "main", "--", "true", fails=True, **old
    )
    assert "over WebSockets here, not SPDY: use kubectl" in told
    assert await run("logs", "web", "-c", "side") == "side\n"
    assert "side" in await run("logs", "web", "--all-containers", "--tail=5")
    path = "/api/v1/namespaces/boilerhouse/pods/web:8080/proxy/x"
    assert await run("get", "--raw", path) == "hello"
    described = await run("describe", "pod", "web")
    assert "Ready" in described
    assert "Allocated resources" in await run("describe", "node", "boilerhouse")
    await run("delete", "pod", "web", "--timeout=30s")
    assert "NotFound" in await asyncio.to_thread(kubectl, "get", "pod", "web", fails=True)


async def test_a_program_that_ends_at_once_is_heard(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`kubectl run -i --rm` prints all that was written before it could attach, every time."""
    kubectl = Kubectl(binary(), scene.world.kubeconfig, tmp_path_factory.mktemp("home"))
    for number in range(5):
        told = await asyncio.to_thread(
            kubectl.run,
            *("run", f"once-{number}", "-i", "--rm", "--image=host", "--restart=Never", "-q"),
            *("--", "sh", "-c", "echo first; seq 20000; echo last"),
            stdin="",
        )
        lines = told.stdout.splitlines()
        assert (lines[0], len(lines), lines[-1]) == ("first", 20002, "last"), told.stderr


async def test_port_forward_is_refused_by_name_whatever_it_offers(scene: Scene) -> None:
    """kubectl's subprotocol for it is no token, and the answer is a Status all the same."""
    await scene.create(pod("alone", sh("exec sleep 1000")))
    found = await scene.ready("alone")
    reader, writer = await asyncio.open_unix_connection(scene.world.socket)
    writer.write(
        b"GET /api/v1/namespaces/boilerhouse/pods/alone/portforward HTTP/1.1\r\nHost: local\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n\r\n"
    )
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readuntil(b"}")  # of its empty metadata
        body += await reader.readuntil(b"}")
    writer.close()
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"connect to the Pod's address, {found.status.pod_ip}, instead".encode() in body
