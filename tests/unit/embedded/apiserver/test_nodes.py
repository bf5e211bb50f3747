"""The way to a Pod: through the kubelet that answers for its node, or to a clear refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.platform.kube.status import BadRequest, NotFound, Unavailable
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream
from tests.contract.driver import Api
from tests.unit.embedded.apiserver.conftest import Embedded

Body = dict[str, Any]


class Echo:
    """A kubelet that says what it was asked."""

    async def logs(self, pod: Body, request: Request) -> Reply | Stream:
        async def lines() -> AsyncIterator[bytes]:
            yield pod["metadata"]["name"].encode() + b"\n"
            yield request.param("tailLines").encode()

        return Stream(200, lines(), {"content-type": "text/plain"})

    async def proxy(self, pod: Body, port: str, path: str, request: Request) -> Reply | Stream:
        text = f"{request.method} {pod['metadata']['name']} {port} {path}"
        return Reply(200, text.encode(), {"content-type": "text/plain"})

    async def open(
        self, pod: Body, subresource: str, request: Request, subprotocols: tuple[str, ...]
    ) -> Session:
        async def run(socket: Socket) -> None:
            await socket.send(f"{subresource} {request.params('command')}".encode())
            while (message := await socket.receive()) is not None:
                await socket.send(message.upper())

        return Session(subprotocols[0], run)


@pytest.fixture
async def pods(embedded: Embedded) -> Api:
    """Three Pods: on a node with a kubelet, on one without, on none."""
    api = embedded.api
    embedded.server.nodes["here"] = Echo()
    for name, node in (("near", "here"), ("far", "there"), ("nowhere", "")):
        spec: Body = {"containers": [{"name": "c", "image": "x"}]}
        (await api.create("pods", {"metadata": {"name": name}, "spec": spec})).ok()
        if node:
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            path = api.path("pods", name, "binding")
            (await api.call("POST", path, binding)).ok()
    return api


def _exec(api: Api, name: str) -> Request:
    query = (("command", "ls"), ("command", "-l"), ("stdin", "true"))
    return Request("GET", api.path("pods", name, "exec"), query)


async def test_a_session_carries_messages_both_ways(pods: Api) -> None:
    """The socket has the chosen protocol, and ends when the client hangs up."""
    async with pods.transport.socket(_exec(pods, "near"), ("v5.channel.k8s.io",)) as socket:
        assert socket.subprotocol == "v5.channel.k8s.io"
        assert await socket.receive() == b"exec ['ls', '-l']"
        await socket.send(b"hello")
        assert await socket.receive() == b"HELLO"


async def test_a_session_that_ends_delivers_what_it_said_before(
    embedded: Embedded, pods: Api
) -> None:
    """The end is the last thing heard, after every message."""

    class Talker(Echo):
        async def open(self, *_: Any, **__: Any) -> Session:
            async def run(socket: Socket) -> None:
                for number in range(40):
                    await socket.send(str(number).encode())

            return Session(None, run)

    embedded.server.nodes["here"] = Talker()
    heard = []
    async with pods.transport.socket(_exec(pods, "near"), ()) as socket:
        while (message := await socket.receive()) is not None:
            heard.append(message)
    assert heard == [str(number).encode() for number in range(40)]


async def test_logs_and_proxy_reach_the_node(embedded: Embedded, pods: Api) -> None:
    """A log streams; a proxied request keeps its method, port and path."""
    logs = await pods.get("pods", "near", "log", tailLines=3)
    assert logs.body == b"near\n3"
    answer = await pods.call("PUT", pods.path("pods", "near:8080", "proxy/a/b"), b"x")
    assert answer.body == b"PUT near 8080 /a/b"
    plain = await InProcess(embedded.server).request(
        Request("GET", pods.path("pods", "near", "proxy"))
    )
    assert plain.body == b"GET near  /"


async def test_a_pod_without_a_node(pods: Api) -> None:
    """There is nothing to log yet, and nowhere to run a command."""
    assert (await pods.get("pods", "nowhere", "log")).code == 204
    with pytest.raises(BadRequest, match="pod nowhere does not have a host assigned"):
        async with pods.transport.socket(_exec(pods, "nowhere"), ()):
            pass


async def test_a_node_without_a_kubelet(pods: Api) -> None:
    """The node exists in name only: worth trying again later."""
    (await pods.get("pods", "far", "log")).status(503, "ServiceUnavailable")
    with pytest.raises(Unavailable, match='node "there"'):
        async with pods.transport.socket(_exec(pods, "far"), ()):
            pass


async def test_a_session_needs_a_pod_and_a_socket(pods: Api) -> None:
    """No Pod, no session; a plain request for one is told to upgrade."""
    with pytest.raises(NotFound):
        async with pods.transport.socket(_exec(pods, "nobody"), ()):
            pass
    answer = await pods.call("POST", pods.path("pods", "near", "exec"))
    assert "Upgrade" in answer.status(400, "BadRequest")["message"]
