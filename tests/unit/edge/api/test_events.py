"""The feed over SSE and WebSocket: what is told, how it resumes, and who is cut off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from boilerhouse.core import names
from boilerhouse.edge.api.events import QUEUE, Feed, Overrun
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Request, Socket
from tests.unit.edge.api.conftest import Rest, soon

pytestmark = pytest.mark.slow

Body = dict[str, Any]
OFFERED = ("boilerhouse.events", "v5.channel.k8s.io")


class Listener:
    """A client of the event stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last = ""

    async def next(self) -> Body:
        async with asyncio.timeout(10):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last = line.removeprefix("id: ")
                if line.startswith("data: "):
                    body: Body = json.loads(line.removeprefix("data: "))
                    return body
        raise AssertionError("the stream has ended")

    async def until(self, kind: str) -> Body:
        while (event := await self.next())["type"] != kind:
            pass
        return event


@asynccontextmanager
async def listening(address: str, last: str = "") -> AsyncIterator[Listener]:
    headers = {"last-event-id": last} if last else {}
    async with (
        httpx2.AsyncClient(base_url=address, timeout=30) as http,
        http.stream("GET", "/api/v1/events", headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Listener(answer.aiter_lines())


@asynccontextmanager
async def socket(address: str, path: str, *query: tuple[str, str]) -> AsyncIterator[Socket]:
    http = Http(Config(server=address))
    try:
        async with http.socket(Request("GET", path, query), OFFERED) as opened:
            yield opened
    finally:
        await http.close()


async def test_the_first_picture_is_whole(rest: Rest) -> None:
    """Who connects is told of everything there is, over SSE and WebSocket alike, and of no more."""
    await rest.world.ready_workload()
    await rest.world.full_pool(size=1)
    await rest.claim("alice")
    await rest.world.claim("bob", "nothing")
    await rest.world.claimed(names.claim_name("bob", "nothing"), "Error")
    trigger = {"type": "cron", "workloadRef": "web", "tenant": {"static": "alice"}}
    made = await rest.post("/triggers", {"name": "nightly", "spec": trigger})
    assert made.status_code == 201, made.text
    await soon(lambda: rest.services.informers.triggers.cache)

    def picture(told: list[Body]) -> list[tuple[str, str]]:
        return [(one["type"], one.get("tenantId") or one["name"]) for one in told]

    async def settled() -> bool:
        """Whether alice's place in the pool is filled again."""
        world = rest.services.feed._world()
        ready = [one.body["ready"] for one in world if one.type == "pool.state"]
        running = [one for one in world if one.type == "instance.state"]
        return ready == [1] and len(running) == 2

    await rest.world.settles(settled)
    expected = picture([one.body for one in rest.services.feed._world()])
    kinds = [kind for kind, _ in expected]
    assert kinds[:2] == ["workload.state", "pool.state"]
    assert {"instance.state", "tenant.claimed", "tenant.error", "trigger.state"} <= set(kinds)
    assert ("tenant.error", "bob") in expected and ("trigger.state", "nightly") in expected
    async with rest.served() as address:
        async with listening(address) as events:
            assert (await events.next())["type"] == "hello"
            assert picture([await events.next() for _ in expected]) == expected
        async with socket(address, "/ws") as ws:
            told = [json.loads(await ws.receive() or b"") for _ in range(len(expected) + 1)]
            assert told[0]["type"] == "hello"
            assert picture(told[1:]) == expected


async def test_a_tenants_life_is_told(rest: Rest) -> None:
    """hello, the instance, claimed, released once, and what becomes of workloads and pools."""
    async with rest.served() as address, listening(address) as events:
        assert (await events.next())["type"] == "hello"
        await rest.world.ready_workload()
        ready = await events.until("workload.state")
        assert ready["name"] == "web"
        await rest.world.full_pool(size=1)
        assert (await events.until("pool.instance.ready"))["workloadRef"] == "web"
        await rest.claim("alice")
        claimed = await events.until("tenant.claimed")
        assert (claimed["tenantId"], claimed["source"]) == ("alice", "pool")
        await rest.post("/tenants/alice/release", {"workload": "web"})
        released = await events.until("tenant.released")
        assert (released["tenantId"], released["workloadRef"]) == ("alice", "web")
        await rest.claim("bob")
        kinds: list[str] = []
        while not kinds or kinds[-1] != "tenant.claimed":
            kinds.append((await events.next())["type"])
        assert "tenant.released" not in kinds
        assert "instance.state" in kinds


async def test_a_listener_resumes_where_it_was(rest: Rest) -> None:
    """With Last-Event-ID nothing is missed and nothing comes twice."""
    await rest.world.ready_workload()
    async with rest.served() as address:
        async with listening(address) as events:
            await rest.claim("alice")
            await events.until("tenant.claimed")
            last = events.last
        await rest.claim("bob")
        async with listening(address, last) as events:
            hello = await events.next()
            assert (hello["type"], hello["resumed"]) == ("hello", last)
            seen = await events.until("tenant.claimed")
            assert seen["tenantId"] == "bob"
        for unknown in ("another-5", "nonsense", f"{last}999"):
            async with listening(address, unknown) as events:
                assert (await events.next())["type"] == "reset"
                claimed = [(await events.until("tenant.claimed"))["tenantId"] for _ in range(2)]
                assert sorted(claimed) == ["alice", "bob"]


async def test_a_websocket_hears_the_same(rest: Rest) -> None:
    """JSON texts, the state of the world first, then what happens."""
    await rest.world.ready_workload()
    await rest.claim("alice")
    async with rest.served() as address, socket(address, "/ws") as ws:

        async def next_event() -> Body:
            async with asyncio.timeout(10):
                message = await ws.receive()
            assert message is not None
            body: Body = json.loads(message)
            return body

        assert (await next_event())["type"] == "hello"
        assert (await next_event())["type"] == "workload.state"
        state = await next_event()
        assert (state["type"], state["tenantId"]) == ("instance.state", "alice")
        assert (await next_event())["type"] == "tenant.claimed"
        await rest.claim("bob")
        kinds = set()
        while "tenant.claimed" not in kinds:
            kinds.add((await next_event())["type"])


async def test_a_websocket_is_guarded(keyed: Rest) -> None:
    """Without the key the handshake is refused with 401 and the reason."""
    async with keyed.served() as address:
        with pytest.raises(ApiError) as refused:
            async with socket(address, "/ws"):
                pass
        assert refused.value.status_code == 401


async def test_a_foreign_page_gets_no_websocket(rest: Rest) -> None:
    """An Origin that is not ours is refused before the socket opens."""
    async with rest.served() as address, httpx2.AsyncClient(base_url=address) as http:
        answer = await http.get(
            "/ws",
            headers={
                "connection": "upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
                "origin": "http://evil.example",
            },
        )
        assert answer.status_code == 403
        assert answer.json()["code"] == "OriginRefused"


async def test_a_slow_listener_is_cut_off(rest: Rest) -> None:
    """Its queue is bounded; it learns that it must resume, and nobody else waits for it."""
    feed = rest.services.feed
    subscription = feed.subscribe()
    events = aiter(subscription)
    first = await anext(events)
    assert first is not None and first.type == "hello"
    for number in range(QUEUE + 10):
        feed._tell({"type": "test", "number": number})
    seen = 0
    with pytest.raises(Overrun):
        async for _ in events:
            seen += 1
    assert seen == QUEUE


async def test_silence_is_filled_with_heartbeats(rest: Rest) -> None:
    """A listener hears a sign of life, and the end when the feed closes."""
    feed = Feed(rest.services.informers, rest.world.clock, heartbeat=0.01)
    events = aiter(feed.subscribe())
    first = await anext(events)
    assert first is not None and first.type == "hello"
    assert await anext(events) is None
    feed.close()
    assert [event async for event in events if event is not None] == []


async def test_stopping_ends_listeners_at_once(rest: Rest) -> None:
    """A server with open streams stops without waiting for them."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    async with asyncio.timeout(20), httpx2.AsyncClient(timeout=30) as http:
        async with rest.served() as address:
            events = http.stream("GET", f"{address}/api/v1/events")
            logs = http.stream("GET", f"{address}/api/v1/instances/{name}/logs?follow=true")
            one, two = await events.__aenter__(), await logs.__aenter__()
            await soon(lambda: rest.node.running == 1)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 2
        assert rest.node.running == 0
        await one.aclose()
        await two.aclose()


async def test_a_terminal_in_an_instance(rest: Rest) -> None:
    """attach carries channel bytes both ways and ends with the command's status."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    path = f"/api/v1/instances/{name}/attach"
    async with rest.served() as address:
        async with socket(address, path, ("command", "cat"), ("tty", "true")) as ws:
            await ws.send(b"\x00hello")
            assert await ws.receive() == b"\x01hello"
            await ws.send(b"\xff\x00")
            status = await ws.receive()
            assert status is not None and status[:1] == b"\x03" and b"Success" in status
            assert await ws.receive() is None
        assert ("tty", "true") in rest.node.queries[-1]
        async with socket(address, path) as ws:  # the tenant's own program
            await ws.send(b"\x00hi")
            assert await ws.receive() == b"\x01hi"
        await soon(lambda: rest.node.running == 0)
        with pytest.raises(ApiError) as refused:
            async with socket(address, "/api/v1/instances/nobody/attach"):
                pass
        assert refused.value.status_code == 404
