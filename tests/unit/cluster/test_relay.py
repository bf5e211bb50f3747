"""The relay into the node's namespace carries bytes, ends and breakages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

import pytest
from cluster import relay


@contextlib.asynccontextmanager
async def relayed(target: int) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(relay.serve(listener, target))
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_end_of_input_still_lets_the_answer_through() -> None:
    """A mebibyte goes in, our side ends, and what the server makes of the whole comes back."""
    data = os.urandom(1 << 20)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(-1))[::-1])
        writer.close()
        await writer.wait_closed()

    async with (
        await asyncio.start_server(answer, "127.0.0.1", 0) as server,
        relayed(server.sockets[0].getsockname()[1]) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        assert await reader.read(-1) == data[::-1]
        writer.close()
        await writer.wait_closed()


async def test_nobody_behind_the_relay() -> None:
    """When nothing listens inside, the connection breaks at once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    async with relayed(closed) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionError):
            if not await reader.read(1):
                raise ConnectionError("ended")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
