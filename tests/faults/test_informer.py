"""An informer on real sockets, under a server that drops, freezes, lies and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from boilerhouse.core.clock import new_rng
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.transport import Http
from tests.unit.platform.kube.servers import Exchange, head, pod, pods, serving, status

# Seconds instead of minutes. Real sockets have real time.
FAST = Timing(watch=1, margin=0.3, first_delay=0.01, longest_delay=0.1, too_short=0.01)

Watch = Callable[[Exchange, int], Awaitable[None]]


class Server:
    """Lists one Pod more each time it is asked; watches behave as the test says."""

    def __init__(self, watch: Watch) -> None:
        self.lists = 0
        self.watches = 0
        self._watch = watch

    async def __call__(self, exchange: Exchange) -> None:
        if "watch=true" in exchange.target:
            self.watches += 1
            await self._watch(exchange, self.watches)
        else:
            self.lists += 1
            items = [pod(f"p{number}", number) for number in range(1, self.lists + 1)]
            await exchange.reply(200, pods(*items, version=10 * self.lists))


@asynccontextmanager
async def following(server: Server) -> AsyncIterator[Informer[Pod]]:
    async with serving(server) as address:
        client = Client(Http(Config(address)), rng=new_rng(1))
        informer = Informer(client, PODS, timing=FAST, rng=new_rng(1))
        async with informer.running():
            await informer.wait_synced(5)
            yield informer
        await client.close()


async def until(condition: Callable[[], bool], timeout: float = 8.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110 - of many kinds, not one event
            await asyncio.sleep(0.01)


async def quiet(exchange: Exchange) -> None:
    """Behave: begin, say nothing, end cleanly (and sooner than asked, for the test's sake)."""
    await exchange.begin()
    await asyncio.sleep(0.1)
    await exchange.end()


async def drop(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.event("ADDED", pod("seen", 15))
    exchange.hang_up()


async def drop_mid_line(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(b'{"type":"ADDED","object":{"metadata":{"na')
    await exchange.end()


async def reset(exchange: Exchange) -> None:
    await exchange.begin()
    exchange.reset()


async def never_answer(exchange: Exchange) -> None:
    await asyncio.sleep(30)


async def fall_silent(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "12"}})
    await asyncio.sleep(30)


async def expire(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.event("ERROR", status(410, "Expired", "too old resource version"))
    await exchange.end()


async def refuse(exchange: Exchange) -> None:
    await exchange.reply(410, status(410, "Gone"))


async def fail(exchange: Exchange) -> None:
    await exchange.reply(500, b"<html>oops</html>")


async def talk_nonsense(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(b"<html>maintenance</html>\n")
    await asyncio.sleep(30)


async def not_http(exchange: Exchange) -> None:
    await exchange.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    exchange.hang_up()


async def bad_chunks(exchange: Exchange) -> None:
    await exchange.send(head(200, {"transfer-encoding": "chunked"}) + b"zz\r\n\r\n")
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    "fault",
    [
        drop,
        drop_mid_line,
        reset,
        never_answer,
        fall_silent,
        expire,
        refuse,
        fail,
        talk_nonsense,
        not_http,
        bad_chunks,
    ],
    ids=lambda fault: fault.__name__,
)
async def test_whatever_happens_to_a_watch_the_informer_lists_again(
    fault: Callable[[Exchange], Awaitable[None]],
) -> None:
    """After any doubt the cache holds what a new list says, and the next watch is followed."""

    async def watch(exchange: Exchange, number: int) -> None:
        await (fault(exchange) if number == 1 else quiet(exchange))

    server = Server(watch)
    async with following(server) as informer:
        await until(lambda: server.watches >= 2 and server.lists == 2)
        assert sorted(key.name for key in informer.cache) == ["p1", "p2"]
        assert informer.relists == 2
        # Healthy again: the next watches are resumed, not preceded by lists.
        await until(lambda: server.watches >= 4)
        assert server.lists == 2
        assert informer.healthy()


async def test_a_half_dead_peer_is_noticed_within_its_deadline() -> None:
    """A peer that accepts and never sends a byte, not even a FIN, delays us and no more."""

    async def watch(exchange: Exchange, number: int) -> None:
        await (never_answer(exchange) if number <= 2 else quiet(exchange))

    server = Server(watch)
    async with following(server) as informer:
        began = asyncio.get_running_loop().time()
        await until(lambda: informer.relists == 3)
        # Twice timeoutSeconds and margin; without a client-side deadline it would be for ever.
        assert 2 <= asyncio.get_running_loop().time() - began <= 5


async def test_a_clean_end_is_resumed_from_where_it_was() -> None:
    """Events and bookmarks move the revision that the next watch starts from."""
    asked: list[str] = []

    async def watch(exchange: Exchange, number: int) -> None:
        asked.append(exchange.target.partition("resourceVersion=")[2].partition("&")[0])
        await exchange.begin()
        if number == 1:
            await exchange.event("ADDED", pod("x", 17))
        elif number == 2:
            await exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "99"}})
        else:
            await asyncio.sleep(0.1)
        await exchange.end()

    server = Server(watch)
    async with following(server):
        await until(lambda: len(asked) >= 4)
    assert asked[:4] == ["10", "17", "99", "99"]
    assert server.lists == 1


async def test_an_api_server_that_restarts_is_found_again() -> None:
    """Gone for a while, back on the same port with more objects: the cache catches up."""

    async def watch(exchange: Exchange, number: int) -> None:
        await quiet(exchange)

    server = Server(watch)
    async with serving(server) as address:
        client = Client(Http(Config(address)), rng=new_rng(1))
        informer = Informer(client, PODS, timing=FAST, rng=new_rng(1))
        task = asyncio.create_task(informer.run())
        await informer.wait_synced(5)
    await until(lambda: "Connect" in informer.last_error)
    assert not informer.healthy(0)
    async with serving(server, port=int(address.rpartition(":")[2])):
        await until(lambda: informer.last_error == "" and informer.relists >= 2)
        assert len(informer.cache) == server.lists
        task.cancel()
        await asyncio.wait({task})
    await client.close()
