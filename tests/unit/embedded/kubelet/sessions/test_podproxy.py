"""Requests carried to a port of a Pod: what goes through, what does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from boilerhouse.embedded.kubelet.sessions import podproxy
from boilerhouse.platform.kube.status import BadRequest, Unavailable
from boilerhouse.platform.kube.wire import Request

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[podproxy.Connect]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    where = server.sockets[0].getsockname()

    async def connect(port: int) -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, where)
        return made

    async with server:
        yield connect


def answering(answer: bytes, heard: list[bytes] | None = None) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"content-length" in line),
            0,
        )
        if heard is not None:
            heard.append(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    return handle


async def body(connect: podproxy.Connect, request: Request, path: str = "/") -> bytes:
    answer = await podproxy.forward(connect, "127.16.0.1", 80, path, request)
    return b"".join([chunk async for chunk in answer.chunks])


async def test_a_request_arrives_as_it_was_written() -> None:
    """Method, path, query, headers and body go through; the API server's credentials do not."""
    heard: list[bytes] = []
    handler = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", heard)
    headers = {"x-token": "t", "authorization": "secret", "connection": "upgrade"}
    request = Request("POST", "/", (("q", "a b"),), headers, b"sent")
    async with serving(handler) as connect:
        assert await body(connect, request, "/a b/c") == b"ok"
    assert heard[0].startswith(b"POST /a%20b/c?q=a+b HTTP/1.1\r\n")
    assert b"x-token: t\r\n" in heard[0].lower()
    assert b"secret" not in heard[0]
    assert b"upgrade" not in heard[0]
    assert heard[0].endswith(b"\r\n\r\nsent")


async def test_answers_in_pieces_come_in_pieces() -> None:
    """A chunked body is passed on as it comes; the status and headers are the Pod's."""
    pieces = b"HTTP/1.1 418 No\r\nx-a: 1\r\nx-a: 2\r\ntransfer-encoding: chunked\r\n\r\n"
    pieces += b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    async with serving(answering(pieces)) as connect:
        answer = await podproxy.forward(connect, "h", 80, "/", Request("GET", "/"))
        assert answer.status == 418
        assert answer.headers == {"x-a": "1, 2"}
        assert b"".join([chunk async for chunk in answer.chunks]) == b"abcde"


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
async def test_who_does_not_speak_http(answer: bytes) -> None:
    """An end without an answer, or something else, is no answer."""
    async with serving(answering(answer)) as connect:
        with pytest.raises(Unavailable, match="did not answer"):
            await body(connect, Request("GET", "/"))


async def test_a_body_that_breaks_off_is_not_whole() -> None:
    """The reader is told, instead of taking half for the whole."""
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal")) as connect:
        with pytest.raises(Unavailable, match="broke off"):
            await body(connect, Request("GET", "/"))


async def test_nobody_listens() -> None:
    """A refused connection is Unavailable with the port in it."""

    async def connect(port: int) -> socket.socket:
        raise ConnectionRefusedError("refused")

    with pytest.raises(Unavailable, match="port 80"):
        await body(connect, Request("GET", "/"))


def test_ports_by_number_name_and_default() -> None:
    """A number is taken as it is; a name must be declared; nothing means the first."""
    ports = [{"name": "web", "containerPort": 8080}, {"containerPort": 9}]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"ports": ports}]}}
    assert [podproxy.port_number(pod, port) for port in ("", "web", "9", "77")] == [
        8080, 8080, 9, 77,
    ]  # fmt: skip
    with pytest.raises(BadRequest, match="has no port 'none'"):
        podproxy.port_number(pod, "none")
    with pytest.raises(BadRequest, match="declares no port"):
        podproxy.port_number({"metadata": {"name": "p"}, "spec": {"containers": [{}]}}, "")
