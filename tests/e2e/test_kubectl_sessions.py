"""kubectl's conversations with a Pod: exec, logs and the proxy, through the server to its node.

The node is a few lines that answer by a fixed rule: what is tested is everything between.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream
from tests.e2e.kubectl import Kubectl, binary
from tests.embedded_fixture import open_world

pytestmark = pytest.mark.slow

STDIN, STDOUT, STDERR, STATUS = range(4)
CLOSE = 255  # v5: the next byte names the stream that ends


class Parrot:
    """Writes its arguments to stderr and its input to stdout; exits with the input's length."""

    async def open(
        self, pod: Any, subresource: str, request: Request, subprotocols: tuple[str, ...]
    ) -> Session:
        command = " ".join(request.params("command"))

        async def run(peer: Socket) -> None:
            await peer.send(bytes([STDERR]) + command.encode() + b"\n")
            heard = b""
            while request.param("stdin") and (message := await peer.receive()):
                if message[0] == CLOSE:
                    break
                if message[0] == STDIN:
                    heard += message[1:]
                    await peer.send(bytes([STDOUT]) + message[1:])
            await peer.send(bytes([STATUS]) + json.dumps(ended(len(heard))).encode())

        return Session("v5.channel.k8s.io", run)

    async def logs(self, pod: Any, request: Request) -> Reply | Stream:
        return Stream(
            200, lines(int(request.param("tailLines", "3"))), {"content-type": "text/plain"}
        )

    async def proxy(self, pod: Any, port: str, path: str, request: Request) -> Reply | Stream:
        return Reply(200, f"{port} {path}".encode(), {"content-type": "text/plain"})


def ended(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code)}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [cause]},
    }


async def lines(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"line %d\n" % number


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """One Pod on a node that a parrot answers for."""
    path = binary()
    world = await open_world(tmp_path / "data")
    world.server.nodes["perch"] = Parrot()
    kubectl = Kubectl(path, world.kubeconfig, tmp_path)
    container = {"name": "main", "image": "host", "ports": [{"containerPort": 8080}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "parrot"},
        "spec": {"nodeName": "perch", "containers": [container]},
    }
    await asyncio.to_thread(kubectl, "create", "-f-", stdin=pod)
    status = {"status": {"phase": "Running"}}
    await asyncio.to_thread(
        kubectl, "patch", "pod", "parrot", "--subresource=status", "-p", json.dumps(status)
    )
    yield kubectl
    await world.close()


async def test_exec_carries_both_ways_and_brings_the_exit_code(kubectl: Kubectl) -> None:
    """Input, its end, output, errors and the exit code go through, byte for byte."""
    done = await asyncio.to_thread(
        kubectl.run, "exec", "-i", "parrot", "--", "say", "a b", stdin="hello"
    )
    assert (done.stdout, done.returncode) == ("hello", 5)
    assert done.stderr.splitlines()[0] == "say a b"
    done = await asyncio.to_thread(kubectl.run, "exec", "parrot", "--", "true")
    assert (done.returncode, done.stderr) == (0, "true\n")


async def test_logs_come_from_the_node(kubectl: Kubectl) -> None:
    """Options are passed on; a stream that ends ends the command."""
    assert await asyncio.to_thread(kubectl, "logs", "parrot") == "line 0\nline 1\nline 2\n"
    told = await asyncio.to_thread(kubectl, "logs", "parrot", "-f", "--tail=1")
    assert told == "line 0\n"


async def test_the_proxy_reaches_a_port(kubectl: Kubectl) -> None:
    """Path and port of the proxy subresource arrive as they were written."""
    path = "/api/v1/namespaces/boilerhouse/pods/parrot:8080/proxy/a/b"
    assert await asyncio.to_thread(kubectl, "get", "--raw", path) == "8080 /a/b"
