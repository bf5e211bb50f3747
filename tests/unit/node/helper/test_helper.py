"""The helper between its callers and the agents."""

from __future__ import annotations

import asyncio
import os

import pytest

from boilerhouse.node.agent import protocol
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.store.store import Store
from boilerhouse.platform.rpc.message import Answer, Body, Handler, Request
from boilerhouse.platform.rpc.peer import Peer, Unreachable
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused
from tests.unit.node.agent.agent_fixture import SECRET, listening
from tests.unit.node.helper.helper_fixture import HELPER_TOKEN, House


def request(
    method: str = "GET",
    path: str = "/agent/usage",
    *,
    token: str = HELPER_TOKEN,
    agent: str = "127.0.0.1:1",
    agent_token: str = SECRET,
    body: Body | None = None,
    query: tuple[tuple[str, str], ...] = (),
) -> Request:
    headers = {TOKEN_HEADER: token, protocol.AGENT: agent, protocol.AGENT_TOKEN: agent_token}
    return Request(method, path, query, headers, body or Body())


async def told(handler: Handler, asked: Request) -> tuple[int, str]:
    answer = await handler(asked)
    body = await answer.body.read(1 << 20)
    await answer.body.close()
    return answer.status, "" if answer.status < 300 else Refused.of(answer.status, body).code


async def test_it_passes_on(house: House) -> None:
    """Bytes of any length go to the right agent and come back unchanged."""
    helper, agent = Peer("127.0.0.1", house.helper_port), f"127.0.0.1:{house.rig.port}"
    content = os.urandom(5 << 20)
    where = (("path", "/workspace/ä b"),)
    put = request("PUT", "/agent/files", agent=agent, query=where, body=Body(content))
    assert await told(helper, put) == (204, "")
    assert (house.rig.workspace / "ä b").read_bytes() == content
    answer = await helper(request(path="/agent/files", agent=agent, query=where))
    assert await answer.body.read(6 << 20) == content
    await answer.body.close()


async def test_who_may_ask(house: House) -> None:
    """Without the helper's token nothing is passed on; without the agent's, the agent refuses."""
    helper, agent = Peer("127.0.0.1", house.helper_port), f"127.0.0.1:{house.rig.port}"
    assert await told(helper, request(agent=agent)) == (200, "")
    assert await told(helper, request(agent=agent, token=SECRET)) == (401, "unauthorized")
    assert await told(helper, request(agent=agent, agent_token="x")) == (502, "agent-token")
    assert await told(helper, Request("GET", "/healthz")) == (204, "")


async def test_only_known_verbs_are_passed_on(house: House) -> None:
    """What agents answer besides is not reachable through the helper."""
    helper, agent = Peer("127.0.0.1", house.helper_port), f"127.0.0.1:{house.rig.port}"
    for method, path in (
        ("GET", "/agent/started"),
        ("POST", "/agent/files"),
        ("GET", "/usage"),
        ("GET", "/agent/../agent/usage"),
        ("GET", "/agentusage"),
    ):
        assert await told(helper, request(method, path, agent=agent)) == (404, "no-such-path")


@pytest.mark.parametrize(
    "agent", ["", "localhost:80", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "a:b:c", "1.2.3:4"]
)
async def test_agents_are_addresses(house: House, agent: str) -> None:
    """A name, or half an address, is refused."""
    helper = Peer("127.0.0.1", house.helper_port)
    assert await told(helper, request(agent=agent)) == (400, "bad-agent")


async def test_an_agent_that_is_gone(house: House) -> None:
    """Nobody at the address is 502, and says so."""
    with listening() as nobody:
        port = nobody.getsockname()[1]
    helper = Peer("127.0.0.1", house.helper_port)
    asked = request(agent=f"127.0.0.1:{port}")
    assert await told(helper, asked) == (502, "agent-unreachable")


async def test_an_agent_that_dies_in_the_middle(store: Store) -> None:
    """An answer that breaks off on the way breaks off for the caller too: never a short success."""

    class Dies(Body):
        def __init__(self) -> None:
            super().__init__(b"")
            self.length = 100

        async def __anext__(self) -> bytes:
            raise Unreachable("dead")

    async def agent(request: Request) -> Answer:
        return Answer(200, Dies())

    helper, listener = Helper(HELPER_TOKEN, store, reach=lambda *_: agent), listening()
    port = listener.getsockname()[1]
    await helper.start(listener)
    answer = await Peer("127.0.0.1", port)(request())
    with pytest.raises(Unreachable):
        await answer.body.read(1000)
    await answer.body.close()
    await helper.stop()


async def test_calls_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many calls at a time; who waits too long for a turn is told to come again."""
    monkeypatch.setattr("boilerhouse.node.helper.helper.QUEUE", 0.05)
    leave, entered = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(request: Request) -> Answer:
        entered.release()
        await leave.wait()
        return Answer(204)

    helper = Helper(HELPER_TOKEN, store, reach=lambda *_: slow, calls=2)
    waiting = [asyncio.create_task(told(helper.handle, request())) for _ in range(2)]
    for _ in waiting:
        await entered.acquire()
    with pytest.raises(Refused, match="too much"):
        await helper.handle(request())
    leave.set()
    assert await asyncio.gather(*waiting) == [(204, "")] * 2
    for _ in range(5):  # every place is free again, also after refusals
        assert await told(helper.handle, request()) == (204, "")
    await helper.stop()
