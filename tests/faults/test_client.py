"""The client on real sockets, under servers that do not keep their side of the protocol."""

from __future__ import annotations

import asyncio
import socket

import pytest

from boilerhouse.core.clock import new_rng
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, InternalError, Unavailable
from boilerhouse.platform.kube.transport import Http
from tests.unit.platform.kube.servers import Exchange, pod, pods, serving


async def test_reads_survive_dropped_connections() -> None:
    """Three connections in a row are reset; the fourth attempt of the same read is answered."""
    tries = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            exchange.reset()
        else:
            await exchange.reply(200, pod("x", 1))

    async with serving(handler) as address:
        client = Client(Http(Config(address)), rng=new_rng(1))
        assert (await client.get(PODS, "x")).metadata.name == "x"
        await client.close()


async def test_a_write_whose_answer_is_lost_is_sent_once() -> None:
    """The server took it and hung up: we say that we do not know, and do not send it again."""
    taken = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal taken
        taken += 1
        exchange.reset()

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        with pytest.raises(Unavailable):
            await client.create(PODS, {"metadata": {"name": "x"}})
        await client.close()
    assert taken == 1


async def test_half_a_reply_is_not_an_answer() -> None:
    """A list that breaks off in the middle is never taken for a shorter list."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b'{"metadata":{"resourceVersion":"5"},"items":[')
        exchange.hang_up()

    async with serving(handler) as address:
        client = Client(Http(Config(address)), rng=new_rng(1))
        with pytest.raises(Unavailable):
            await client.list(PODS)
        await client.close()


async def test_json_that_ends_too_early_is_an_error() -> None:
    """A reply that is complete as HTTP and cut off as JSON is the server's fault, and said so."""

    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, b'{"metadata":{"resourceVersion":"5"},"items":[{"metadata":')

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        with pytest.raises(InternalError, match="not a list"):
            await client.list(PODS)
        await client.close()


async def test_a_peer_that_accepts_and_is_never_heard_of_again() -> None:
    """A full backlog or a stopped process: the deadline of the call holds."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client = Client(Http(Config(f"http://127.0.0.1:{listener.getsockname()[1]}")))
        with pytest.raises(Unavailable, match="no answer"):
            await client.raw("POST", "/x", {}, timeout=0.2)
        await client.close()


async def test_cancelling_a_call_frees_its_connection() -> None:
    """A hundred abandoned calls leave the pool as usable as before."""

    async def handler(exchange: Exchange) -> None:
        if exchange.path.endswith("/slow"):
            await asyncio.sleep(30)
        await exchange.reply(200, pod("x", 1))

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        for _ in range(2):
            calls = [asyncio.create_task(client.get(PODS, "slow")) for _ in range(60)]
            await asyncio.sleep(0.2)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert (await client.get(PODS, "x")).metadata.name == "x"
        await client.close()


async def test_more_calls_than_connections_wait_their_turn() -> None:
    """The pool is bounded; a burst is served, a little later."""
    open_now = most = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.01)
        open_now -= 1
        await exchange.reply(200, pods(version=1))

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        await asyncio.gather(*(client.list(PODS) for _ in range(300)))
        await client.close()
    assert most <= 64


async def test_a_reply_that_drips_is_bounded_by_the_deadline() -> None:
    """A byte now and then keeps no call alive beyond its time."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        while True:
            await exchange.chunk(b" ")
            await asyncio.sleep(0.02)

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="no answer within"):
            await client.raw("GET", "/x", timeout=0.3)
        assert asyncio.get_running_loop().time() - began < 2
        await client.close()


async def test_leaving_a_watch_hangs_up() -> None:
    """The server sees the end of a watch that nobody reads any more."""
    left = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.event("ADDED", pod("x", 1))
        if await exchange.reader.read() == b"":
            left.set()

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        async with client.watch(PODS, timeout_seconds=30, read_timeout=30) as events:
            async for event in events:
                assert event.type == "ADDED"
                break
        async with asyncio.timeout(5):
            await left.wait()
        await client.close()


async def test_an_error_page_without_end_is_cut() -> None:
    """The body of a refused watch is read only so far."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin(500)
        while True:
            await exchange.chunk(b"x" * 100_000)

    async with serving(handler) as address:
        client = Client(Http(Config(address)))
        with pytest.raises(ApiError):
            async with client.watch(PODS, timeout_seconds=5, read_timeout=5):
                pass
        await client.close()
