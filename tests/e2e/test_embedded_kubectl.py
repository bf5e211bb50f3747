"""kubectl and a Pod that really runs: apply, wait, exec, logs, attach, cp-like pipes, delete."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.kubectl import Kubectl, binary
from tests.e2e.scene import Scene
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
    assert await run("logs", "web", "-c", "side") == "side\n"
    assert "side" in await run("logs", "web", "--all-containers", "--tail=5")
    path = "/api/v1/namespaces/boilerhouse/pods/web:8080/proxy/x"
    assert await run("get", "--raw", path) == "hello"
    described = await run("describe", "pod", "web")
    assert "Ready" in described
    assert "Allocated resources" in await run("describe", "node", "boilerhouse")
    await run("delete", "pod", "web", "--timeout=30s")
    assert "NotFound" in await asyncio.to_thread(kubectl, "get", "pod", "web", fails=True)
