"""A tenant's own server answers to harm those who share the event loop with its reader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from boilerhouse.embedded.kubelet.sessions import podproxy
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.kube.wire import Request
from tests.unit.embedded.kubelet.sessions.test_podproxy import Handler, answering, serving


def endless(begin: bytes, piece: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begin)
        try:
            while True:
                writer.write(piece * (65536 // len(piece)))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    return handle


class Turns:
    """Counts how often the loop came round while something else went on."""

    def __init__(self) -> None:
        self.count = 0

    async def go(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


@contextlib.asynccontextmanager
async def turns() -> AsyncIterator[Turns]:
    counted = Turns()
    task = asyncio.create_task(counted.go())
    try:
        yield counted
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.timeout(60)
async def test_interim_answers_without_end_are_a_bad_gateway() -> None:
    """`103 Early Hints` for ever: 502 after a few, and the loop is not held meanwhile."""
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n"
    async with serving(endless(b"", interim)) as connect:
        with pytest.raises(ApiError, match="more than 10 interim answers") as refused:
            await podproxy.forward(connect, "h", 80, "/", Request("GET", "/"))
    assert refused.value.status_code == 502


async def test_a_few_interim_answers_are_passed_over() -> None:
    """What browsers are sent before a page is no harm."""
    answer = b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10 + b"HTTP/1.1 204 No Content\r\n\r\n"
    async with serving(answering(answer)) as connect:
        found = await podproxy.forward(connect, "h", 80, "/", Request("GET", "/"))
        assert [chunk async for chunk in found.chunks] == []
    assert found.status == 204


@pytest.mark.timeout(60)
async def test_headers_without_end_are_a_bad_gateway() -> None:
    begin = b"HTTP/1.1 200 OK\r\n"
    async with serving(endless(begin, b"x-a: " + b"b" * 100 + b"\r\n")) as connect:
        with pytest.raises(ApiError, match="headers are too large") as refused:
            await podproxy.forward(connect, "h", 80, "/", Request("GET", "/"))
    assert refused.value.status_code == 502


@pytest.mark.parametrize("status", [600, 777, 999])
async def test_a_status_that_does_not_exist_is_a_bad_gateway(status: int) -> None:
    """Instead of a connection that is closed without a word."""
    answer = b"HTTP/1.1 %d Odd\r\ncontent-length: 0\r\n\r\n" % status
    async with serving(answering(answer)) as connect:
        with pytest.raises(ApiError, match=f"no status {status}") as refused:
            await podproxy.forward(connect, "h", 80, "/", Request("GET", "/"))
    assert refused.value.status_code == 502


@pytest.mark.timeout(60)
async def test_a_body_in_pieces_of_one_byte_leaves_the_loop_to_others() -> None:
    """Pieces are passed on together, and others have their turn in between."""
    begin = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with serving(endless(begin, b"1\r\na\r\n")) as connect, turns() as others:
        found = await podproxy.forward(connect, "h", 80, "/", Request("GET", "/"))
        size = pieces = 0
        before = others.count
        while size < 15_000:
            size, pieces = size + len(await anext(found.chunks)), pieces + 1
        await found.chunks.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert pieces < size / 20
        assert others.count - before >= pieces / 2
