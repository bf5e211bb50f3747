"""Saves: the conversation with an agent, and what becomes of it when either end fails."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.node.agent import protocol
from boilerhouse.node.helper import wire
from boilerhouse.node.helper.snapshot_routes import Capacity
from boilerhouse.node.helper.store import volume
from boilerhouse.node.helper.wire import Saved, SaveOrder
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.helper.bench import Bench, working


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with working(tmp_path / "snapshots") as made:
        yield made


async def refused(code: str, call: object) -> Refused:
    assert asyncio.iscoroutine(call)
    with pytest.raises(Refused) as caught:
        await call
    assert caught.value.code == code, caught.value
    return caught.value


async def test_a_save(bench: Bench) -> None:
    """The bytes that the agent sent lie at the path, and the agent knows; the tenant is halted."""
    agent = bench.agent(data=os.urandom(3 << 20))
    saved = await bench.save()
    assert (saved.digest, saved.seq, saved.entries) == (agent.digest, 1, 3)
    assert (saved.current, saved.unchanged, saved.conflict) == (True, False, False)
    assert bench.file() == agent.data
    assert agent.asked == ["POST /save", "GET /save", "POST /saved"]
    assert (agent.frozen, agent.may_stop, agent.baseline) == (True, True, agent.digest)
    version = await bench.current()
    assert version is not None
    assert (version.digest, version.content, version.pod) == (agent.digest, 1234, "pod-1")
    assert not bench.leftovers()


async def test_what_no_archive_can_keep_is_passed_on(bench: Bench) -> None:
    """The agent names it, and so does the answer, as it arrives."""
    agent = bench.agent()
    agent.skipped = ("workspace/s: a socket",)
    saved = await bench.save()
    assert saved.skipped == agent.skipped
    assert Saved.decode(saved.encode()) == saved


async def test_an_empty_overlay_is_saved_too(bench: Bench) -> None:
    """The first release commits, whatever there is."""
    bench.agent(data=b"")
    assert (await bench.save()).current
    assert bench.file() == b""


async def test_unchanged(bench: Bench) -> None:
    """What is as the agent's baseline and current says is not sent again; the agent may stop."""
    agent = bench.agent()
    await bench.save()
    agent.may_stop = False
    before = sorted(bench.directory.rglob("*"))
    again = await bench.save()
    assert (again.unchanged, again.current, again.seq) == (True, True, 1)
    assert agent.may_stop
    assert sorted(bench.directory.rglob("*")) == before
    restored = bench.agent(2)
    await bench.restore(agent.digest, agent=2)
    assert (await bench.save(pod="pod-2", base=agent.digest, agent=2)).unchanged
    assert restored.may_stop


async def test_unchanged_side_versions_are_still_conflicts(bench: Bench) -> None:
    """Asked again, a save that became a side version says so again, and writes nothing."""
    bench.agent(1, b"one")
    bench.agent(2, b"two")
    await bench.save()
    first = await bench.save(pod="pod-2", agent=2)
    assert (first.current, first.conflict, first.unchanged) == (False, True, False)
    again = await bench.save(pod="pod-2", agent=2)
    assert (again.seq, again.conflict, again.unchanged) == (first.seq, True, True)
    assert bench.file() == b"one"
    assert len(await bench.versions()) == 2


async def test_unchanged_but_deleted_meanwhile(bench: Bench) -> None:
    """A version that is gone is not taken for granted: everything is sent again."""
    agent = bench.agent()
    await bench.save()
    await bench.read("DELETE", wire.SNAPSHOTS, ("tenant", "anna"), ("workload", "shop"))
    assert await bench.current() is None
    agent.asked.clear()
    assert not (await bench.save()).unchanged
    assert bench.file() == agent.data


async def test_a_tree_that_changes(bench: Bench) -> None:
    """Read again until it stands still, at most three times; then it is an error."""
    agent = bench.agent()
    agent.unstable, agent.slow_report = 2, 2
    assert (await bench.save()).current
    assert agent.asked.count("POST /save") == 3
    agent.data, agent.unstable = b"other", 3
    assert (await refused("not-stable", bench.save())).status == 409
    assert not agent.frozen
    assert bench.file() == b"data"
    assert not bench.leftovers()


async def test_other_bytes_than_were_sent(bench: Bench) -> None:
    """A stream that does not have the agent's hash is not stored, and the tenant runs on."""
    agent = bench.agent()
    agent.lies = True
    await refused("agent-unreachable", bench.save())
    assert await bench.current() is None
    assert not agent.frozen


async def test_a_disk_that_reads_differently(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored bytes are read again before they count: nothing is committed, the tenant runs on."""
    agent = bench.agent()
    monkeypatch.setattr(volume, "digest_of", lambda file: ("0" * 64, 4))
    assert (await refused("verify-failed", bench.save())).status == 500
    assert await bench.current() is None
    assert "POST /saved" not in agent.asked
    assert not agent.frozen


async def test_an_agent_that_dies_in_the_middle(bench: Bench) -> None:
    """Half a stream leaves nothing, and current stays."""
    agent = bench.agent(data=b"old")
    await bench.save()
    agent.data, agent.breaks_after = os.urandom(2 << 20), 20
    assert (await refused("agent-unreachable", bench.save())).status == 502
    assert bench.file() == b"old"
    assert not bench.leftovers()
    agent.breaks_after = None
    assert (await bench.save()).current
    assert bench.file() == agent.data


async def test_an_agent_that_gave_up_waiting(bench: Bench) -> None:
    """If it has let its tenant run, the save is no success: what is newer is in no snapshot."""
    agent = bench.agent()
    agent.forgets = True
    assert (await refused("no-such-save", bench.save())).status == 404
    assert not agent.frozen
    agent.forgets, agent.data = False, b"newer"
    assert (await bench.save()).current
    assert bench.file() == b"newer"


async def test_an_agent_that_does_not_hear_the_last_word(bench: Bench) -> None:
    """It is told twice; if it cannot be reached, the save has to be asked for again."""
    agent = bench.agent()
    agent.deaf = 1
    assert (await bench.save()).current
    agent.data, agent.deaf = b"more", 2
    await refused("agent-unreachable", bench.save())
    saved = await bench.save()
    assert (saved.current, saved.seq) == (True, 2)


async def test_a_wrong_token(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that does not take the token is told apart from one that is not there."""
    bench.agent()
    monkeypatch.setattr("tests.unit.node.helper.bench.TOKEN", "another")
    assert (await refused("agent-token", bench.save())).status == 502


async def test_two_at_once_are_one(bench: Bench) -> None:
    """The same save asked for twice runs once, and both are told how it ended."""
    agent = bench.agent()
    agent.gate = asyncio.Event()
    first = asyncio.create_task(bench.save())
    await agent.streaming.acquire()
    second = asyncio.create_task(bench.save())
    await asyncio.sleep(0)
    await refused("other-order", bench.save(base="0" * 64))
    agent.gate.set()
    assert await first == await second
    assert agent.asked.count("POST /save") == 1


async def test_whoever_hangs_up_stops_nothing(bench: Bench) -> None:
    """A save goes on when nobody waits for it any more."""
    agent = bench.agent()
    agent.gate = asyncio.Event()
    asking = asyncio.create_task(bench.save())
    await agent.streaming.acquire()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert agent.frozen
    agent.gate.set()
    await agent.told.wait()
    assert agent.asked.count("POST /save") == 1
    again = await bench.save()
    assert (again.current, again.seq) == (True, 1)


async def test_long_saves_are_asked_for_again(tmp_path: Path) -> None:
    """No call waits for ever: it is told to come again, and finds the same save."""
    async with working(tmp_path / "s", Capacity(patience=0.01)) as bench:
        agent = bench.agent()
        agent.gate = asyncio.Event()
        order = Body(SaveOrder("anna", "shop", "pod-1", "", 3, 0).encode())
        assert (await bench.ask("POST", wire.SAVE, body=order)).status == 202
        asking = asyncio.create_task(bench.save())
        await asyncio.sleep(0.05)
        assert not asking.done()
        agent.gate.set()
        await asking
        assert agent.asked.count("POST /save") == 1 or (await bench.save()).unchanged


async def test_so_many_at_a_time_in_turn(tmp_path: Path) -> None:
    """Streams are bounded, who waits is served in the order of arrival, and waiting is bounded."""
    capacity = Capacity(saves=2, waiting=5)
    async with working(tmp_path / "s", capacity) as bench:
        gate = asyncio.Event()
        agents = [bench.agent(port, b"%d" % port) for port in range(1, 6)]
        for agent in agents:
            agent.gate = gate
        saves = []
        for port in range(1, 6):
            saves.append(asyncio.create_task(bench.save(f"tenant-{port}", agent=port)))
            await asyncio.sleep(0)
        for agent in agents[:2]:
            await agent.streaming.acquire()
        assert [bool(agent.asked) for agent in agents] == [True, True, False, False, False]
        bench.agent(9)
        await refused("busy", bench.save("too-many", agent=9))
        assert await bench.current("tenant-3") is None  # what is cheap does not wait for them
        gate.set()
        assert all(saved.current for saved in await asyncio.gather(*saves))


@pytest.mark.slow
async def test_who_does_not_come_to_rest_keeps_nobody_waiting(tmp_path: Path) -> None:
    """It has no place while it is only being halted, and takes its turn again after that."""
    async with working(tmp_path / "s", Capacity(saves=1)) as bench:
        restless, gated, other = (bench.agent(port, b"%d" % port) for port in (1, 2, 3))
        restless.rest, gated.gate = asyncio.Event(), asyncio.Event()
        order = SaveOrder("tenant-1", "shop", "pod-1", "", 3, 0)
        halting = await bench.ask(
            "POST", wire.SAVE, ("halting", "tell"), body=Body(order.encode()), agent=1
        )
        assert (halting.status, protocol.HALTING in halting.headers) == (202, True)
        waiting = asyncio.create_task(bench.save("tenant-1", agent=1))
        assert (await bench.save("tenant-3", agent=3)).current
        assert other.may_stop
        saving = asyncio.create_task(bench.save("tenant-2", agent=2))
        await gated.streaming.acquire()
        restless.rest.set()
        await asyncio.sleep(0)
        assert not restless.may_stop  # there is one place, and another has it
        gated.gate.set()
        assert (await saving).current
        assert (await waiting).current


@pytest.mark.slow
async def test_a_helper_that_stops_while_a_tenant_is_halted(tmp_path: Path) -> None:
    """Nothing is left of a save that has no place."""
    async with working(tmp_path / "s", Capacity(saves=1)) as bench:
        bench.agent(1).rest = asyncio.Event()
        order = SaveOrder("tenant-1", "shop", "pod-1", "", 3, 0)
        body = Body(order.encode())
        await bench.ask("POST", wire.SAVE, ("halting", "tell"), body=body, agent=1)
    assert not bench.leftovers()


async def test_a_helper_that_stops_in_the_middle(tmp_path: Path) -> None:
    """What was under way is cut off; the next helper finds the old version and no leftovers."""
    async with working(tmp_path / "s") as bench:
        agent = bench.agent(data=b"old")
        await bench.save()
        agent.data, agent.gate = os.urandom(2 << 20), asyncio.Event()
        asking = asyncio.create_task(bench.save())
        await agent.streaming.acquire()
        await bench.helper.stop()
        assert (await refused("stopping", _result(asking))).status == 503
        assert not agent.frozen
    async with working(tmp_path / "s") as bench:
        assert bench.file() == b"old"
        assert not bench.leftovers()
        agent.gate = None
        bench.agents[1] = agent
        assert (await bench.save()).current


async def _result(task: asyncio.Task[object]) -> object:
    return await task


@pytest.mark.parametrize(
    "order",
    [
        b"",
        b"[]",
        b"{}",
        b'{"tenant": "a", "workload": "shop", "pod": "p", "base": "", "keep": "3"}',
        b'{"tenant": "a", "workload": "shop", "pod": "p", "base": "", "keep": true}',
        b'{"tenant": "a", "workload": "shop", "pod": "p", "base": "", "keep": 0}',
        b'{"tenant": "a", "workload": "shop", "pod": "p", "base": "xyz", "keep": 3}',
        b'{"tenant": "a", "workload": "shop", "pod": "", "base": "", "keep": 3}',
        b'{"tenant": "../a", "workload": "shop", "pod": "p", "base": "", "keep": 3}',
        b'{"tenant": "a", "workload": "..", "pod": "p", "base": "", "keep": 3}',
        b'{"tenant": 1, "workload": "shop", "pod": "p", "base": "", "keep": 3}',
    ],
)
async def test_orders_are_checked(bench: Bench, order: bytes) -> None:
    """What is not an order is 400, and nobody is asked anything."""
    agent = bench.agent()
    with pytest.raises(Refused) as caught:
        await bench.ask("POST", wire.SAVE, body=Body(order))
    assert caught.value.status == 400
    assert not agent.asked


def test_an_order_of_an_older_operator_is_read() -> None:
    """It does not say whether the instance started clean."""
    order = SaveOrder("anna", "shop", "pod", "base", 3, 1)
    told = order.plain()
    del told["clean"]
    assert SaveOrder.decode(json.dumps(told).encode()) == order
