"""The wire: who may ask, and what happens to those who ask badly."""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest

from boilerhouse.core.connections import AGENTS
from boilerhouse.platform.rpc.guard import TokenGuard
from boilerhouse.platform.rpc.message import Answer, Body, Request
from boilerhouse.platform.rpc.peer import Peer, Unreachable
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.platform.rpc.server import REFUSALS, Server
from tests.unit.node.agent.agent_fixture import SECRET, Rig, listening


async def say(port: int, data: bytes) -> bytes:
    """Send bytes, end, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def test_only_the_token_opens(rig: Rig) -> None:
    """Without the right token nothing is answered but whether the agent has started."""
    for wrong in ("", SECRET[:-1], SECRET + "x", "é" * 20):
        told = await rig.ask("GET", "/usage", token=wrong)
        assert told.status == 401
        assert SECRET.encode() not in told.body
    assert (await rig.ask("GET", "/started", token="")).status == 204
    assert (await rig.ask("GET", "/usage")).status == 200


def test_a_short_token_is_none() -> None:
    """An empty or short token, as of a Secret gone wrong, does not open the agent to everybody."""
    with pytest.raises(ValueError, match="too short"):
        TokenGuard("")


async def test_paths_and_methods(rig: Rig) -> None:
    """What is not there is 404, what is there for other methods 405."""
    assert (await rig.ask("GET", "/nowhere")).status == 404
    assert (await rig.ask("POST", "/files", ("path", "/workspace/a"))).status == 405
    assert (await rig.ask("GET", "/files")).status == 400


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /usage HTTP/1.0\r\n\r\n", b"400"),
        (b"GET http://x/usage HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nbad name: x\r\n\r\n", b"400"),
        (b"PUT / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", b"400"),
        (b"PUT / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"400"),
        (b"PUT / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", b"400"),
        (b"PUT / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", b"501"),
        (b"GET /?" + b"a=b&" * 200 + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"400"),
        (b"GET /" + b"x" * 100_000, b"431"),
    ],
)
async def test_bad_heads(rig: Rig, head: bytes, status: bytes) -> None:
    """What is not plain HTTP/1.1 is refused, and the connection closed."""
    said = await say(rig.port, head)
    assert said.startswith(b"HTTP/1.1 " + status), said


@pytest.mark.parametrize(
    "rest",
    [
        b"content-length: 10\r\n\r\nshort",
        b"transfer-encoding: chunked\r\n\r\n5\r\nab",
        b"transfer-encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n",
    ],
)
async def test_a_body_that_breaks_off_writes_nothing(rig: Rig, rest: bytes) -> None:
    """Half a file is no file."""
    token = b"x-boilerhouse-token: " + SECRET.encode()
    said = await say(
        rig.port, b"PUT /files?path=/workspace/a HTTP/1.1\r\n" + token + b"\r\n" + rest
    )
    assert said == b""
    for _ in range(100):
        if not list(rig.workspace.iterdir()):
            break
        await asyncio.sleep(0.01)
    assert list(rig.workspace.iterdir()) == []


async def test_several_requests_on_one_connection(rig: Rig) -> None:
    """A connection is used again, also after a refusal whose body nobody read."""
    started = b"GET /started HTTP/1.1\r\n\r\n"
    refused = b"PUT /files HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"
    said = await say(rig.port, started + refused + started)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"204", b"401", b"204"]


async def test_a_body_is_asked_for_when_wanted(rig: Rig) -> None:
    """A client that waits to be told gets told, unless its body is not wanted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    head = "PUT /files?path=/workspace/a HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n"
    writer.write(f"{head}x-boilerhouse-token: {SECRET}\r\n\r\n".encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"ok")
    assert (await reader.readline()).startswith(b"HTTP/1.1 204")
    writer.close()
    said = await say(rig.port, f"{head}\r\n".encode())
    assert said.startswith(b"HTTP/1.1 401")


async def serving(handler: object, **limits: int) -> tuple[Server, int]:
    server = Server("test", handler, **limits)  # type: ignore[arg-type]  # each test's own shape
    listener = listening()
    await server.start(listener)
    return server, listener.getsockname()[1]


async def test_a_refusal_arrives_before_all_was_sent() -> None:
    """Who sends far too much learns why, instead of a broken connection."""

    async def refuse(request: Request) -> Answer:
        raise Refused(413, "too-large", "too large")

    server, port = await serving(refuse)
    answer = await Peer("127.0.0.1", port)(Request("PUT", "/", body=Body(b"x" * (32 << 20))))
    assert answer.status == 413
    assert await answer.body.read(1000)
    await answer.body.close()
    await server.stop()


async def test_an_error_is_500_and_the_server_lives() -> None:
    """A bug in answering one request is logged, and the next request is answered."""

    async def fail(request: Request) -> Answer:
        raise RuntimeError("a bug with a secret in it")

    server, port = await serving(fail)
    for _ in range(2):
        answer = await Peer("127.0.0.1", port)(Request("GET", "/"))
        assert answer.status == 500
        assert b"secret" not in await answer.body.read(1000)
        await answer.body.close()
    await server.stop()


async def test_connections_are_bounded() -> None:
    """More callers than there is room for are told so at once; room that is free is used again."""
    entered, leave = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: Request) -> Answer:
        entered.release()
        await leave.wait()
        return Answer(204)

    server, port = await serving(wait, connections=2)
    peer = Peer("127.0.0.1", port)
    waiting = [asyncio.create_task(peer(Request("GET", "/"))) for _ in range(2)]
    for _ in waiting:
        await entered.acquire()
    busy = await peer(Request("GET", "/"))
    assert busy.status == 503
    await busy.body.close()
    leave.set()
    for task in waiting:
        answer = await task
        assert answer.status == 204
        await answer.body.close()
    await server.stop()


async def test_a_flood_of_connections_holds_no_descriptors() -> None:
    """Beyond those that are told so, connections are closed at once, and are not counted on."""

    async def answer(request: Request) -> Answer:
        return Answer(204)

    server, port = await serving(answer, connections=2)
    before = AGENTS.open
    peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
    async with asyncio.timeout(10):
        for reader, _ in peers[2:]:  # the first two may stay and say nothing
            with contextlib.suppress(ConnectionError):
                await reader.read()
    assert AGENTS.open - before <= 2 + REFUSALS
    for _, writer in peers:
        writer.transport.abort()
    await server.stop()
    assert AGENTS.open == before


async def test_an_answer_that_breaks_off_is_not_taken_for_whole() -> None:
    """A file that shrinks while it is sent, or a peer that dies: the reader is told."""

    class Short(Body):
        async def __anext__(self) -> bytes:
            raise StopAsyncIteration

    async def short(request: Request) -> Answer:
        return Answer(200, Short(b"12345"))

    server, port = await serving(short)
    answer = await Peer("127.0.0.1", port)(Request("GET", "/"))
    with pytest.raises(Unreachable, match="broke off"):
        await answer.body.read(100)
    await answer.body.close()
    await server.stop()


async def test_nobody_there() -> None:
    """No listener, or one that says nothing in time, or nonsense: unreachable, with the address."""
    with listening() as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        await Peer("127.0.0.1", port)(Request("GET", "/"))

    with listening() as silent, pytest.raises(Unreachable, match="no answer in time"):
        await Peer("127.0.0.1", silent.getsockname()[1], patience=0.2)(Request("GET", "/"))

    with listening() as chatty:
        asking = asyncio.create_task(
            Peer("127.0.0.1", chatty.getsockname()[1])(Request("GET", "/"))
        )
        caller, _ = await asyncio.to_thread(chatty.accept)
        with caller:
            caller.sendall(b"SSH-2.0-nonsense\r\n\r\n")
            with pytest.raises(Unreachable):
                await asking
