"""Restores: a stored version into an instance, whole and right or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.node.helper import snapshot_routes, wire
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.helper.bench import Bench, working
from tests.unit.node.helper.operations.test_saving import refused


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with working(tmp_path / "snapshots") as made:
        yield made


def archive_of(bench: Bench, seq: int = 1) -> Path:
    [found] = (bench.directory / ".v/anna/shop").glob(f"{seq}-*.tar.gz")
    return found


async def test_a_restore(bench: Bench) -> None:
    """The bytes that were saved arrive, once; asked again, they are there already."""
    source = bench.agent(1, os.urandom(3 << 20))
    await bench.save()
    target = bench.agent(2, b"")
    restored = await bench.restore(source.digest, agent=2)
    assert (restored.already, restored.container, restored.skipped) == (False, "c1", ())
    assert target.data == source.data
    assert (await bench.restore(source.digest, agent=2)).already


async def test_an_older_version(bench: Bench) -> None:
    """Any stored version can be asked for, by its digest."""
    agent = bench.agent(1, b"old")
    old = agent.digest
    await bench.save()
    agent.data = b"new"
    await bench.save()
    target = bench.agent(2, b"")
    await bench.restore(old, agent=2)
    assert target.data == b"old"
    await refused("restored-already", bench.restore(agent.digest, agent=2))


async def test_what_is_not_stored(bench: Bench) -> None:
    """A version that is not there is 404, and the agent is asked nothing."""
    agent = bench.agent()
    assert (await refused("no-such-version", bench.restore("0" * 64))).status == 404
    await bench.save()
    assert (await refused("no-such-version", bench.restore("0" * 64))).status == 404
    assert "POST /restore" not in agent.asked


@pytest.mark.parametrize(
    "damage", ["flipped at the start", "flipped at the end", "cut", "longer", "empty"]
)
async def test_damaged_bytes(bench: Bench, damage: str) -> None:
    """What is not as it was stored never gets to an agent's end: 409, naming the version."""
    source = bench.agent(1, os.urandom(1 << 20))
    await bench.save()
    file = archive_of(bench)
    content = bytearray(file.read_bytes())
    match damage:
        case "flipped at the start":
            content[0] ^= 1
        case "flipped at the end":
            content[-1] ^= 1
        case "cut":
            del content[-1000:]
        case "longer":
            content += b"x"
        case _:
            content.clear()
    file.write_bytes(content)
    target = bench.agent(2, b"")
    error = await refused("corrupt-version", bench.restore(source.digest, agent=2))
    assert error.status == 409
    assert "version 1" in str(error)
    assert not target.restored
    assert (await refused("corrupt-version", bench.promote(1))).status == 409
    fetched = bench.ask("GET", wire.ARCHIVE, ("tenant", "anna"), ("workload", "shop"))
    assert (await refused("corrupt-version", fetched)).status == 409


@pytest.mark.parametrize("at", [0, -1])
async def test_damage_that_shows_midway(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """A large archive is not read before it is sent; wrong bytes break off before their end."""
    monkeypatch.setattr(snapshot_routes, "READ_FIRST", 1000)
    bench.agent(1, os.urandom(1 << 20))
    await bench.save()
    file = archive_of(bench)
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    answer = await bench.ask("GET", wire.ARCHIVE, ("tenant", "anna"), ("workload", "shop"))
    got = b""
    with pytest.raises(Broken, match="damaged"):
        async for piece in answer.body:
            got += piece
    await answer.body.close()
    assert len(got) < len(content)
    file.write_bytes(content[:-1])
    fetched = bench.ask("GET", wire.ARCHIVE, ("tenant", "anna"), ("workload", "shop"))
    assert (await refused("corrupt-version", fetched)).status == 409


@pytest.mark.parametrize("code", ["bad-archive", "too-large"])
async def test_an_agent_that_refuses_early(bench: Bench, code: str) -> None:
    """Whose fault it is is found out: of bytes as they were stored, or of bytes that are not."""
    source = bench.agent(1, os.urandom(1 << 20))
    await bench.save()
    target = bench.agent(2, b"")
    target.picky = code
    assert "not this" in str(await refused(code, bench.restore(source.digest, agent=2)))
    file = archive_of(bench)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert (await refused("corrupt-version", bench.restore(source.digest, agent=2))).status == 409


async def test_what_was_left_out_is_kept(bench: Bench) -> None:
    """A version of which something has no place any more is never pruned."""
    agent = bench.agent(1, b"0")
    await bench.save()
    target = bench.agent(2, b"")
    target.skipped = ("var/data",)
    restored = await bench.restore(agent.digest, agent=2)
    assert restored.skipped == ("var/data",)
    for number in range(1, 6):
        agent.data = b"%d" % number
        await bench.save()
    assert [(one.seq, one.exempt) for one in await bench.versions()] == [
        (6, False),
        (5, False),
        (4, False),
        (1, True),
    ]


async def test_a_pruned_version_is_still_read_to_its_end(bench: Bench) -> None:
    """Whoever has begun to read a version gets all of it."""
    agent = bench.agent(1, os.urandom(2 << 20))
    data = agent.data
    await bench.save()
    query = [("tenant", "anna"), ("workload", "shop")]
    answer = await bench.ask("GET", wire.ARCHIVE, *query)
    read = await anext(answer.body)
    for number in range(5):
        agent.data = b"%d" % number
        await bench.save()
    assert read + await answer.body.read(1 << 22) == data
    await answer.body.close()
    with pytest.raises(Refused):
        await bench.ask("GET", wire.ARCHIVE, *query, ("seq", "1"))


async def test_two_at_once_are_one(bench: Bench) -> None:
    """The same restore asked for twice goes to the agent once."""
    source = bench.agent(1, b"data")
    await bench.save()
    target = bench.agent(2, b"")
    target.gate = asyncio.Event()
    first = asyncio.create_task(bench.restore(source.digest, agent=2))
    await target.streaming.acquire()
    second = asyncio.create_task(bench.restore(source.digest, agent=2))
    await asyncio.sleep(0)
    target.gate.set()
    assert await first == await second
    assert target.asked.count("POST /restore") == 1


@pytest.mark.parametrize(
    "order",
    [
        b'{"tenant": "a", "workload": "w", "pod": "p", "digest": "x", "mode": "cold"}',
        b'{"tenant": "a", "workload": "w", "pod": "p", "digest": "%s", "mode": "hot"}'
        % (b"0" * 64),
        b'{"tenant": "a", "workload": "w", "pod": "p", "mode": "cold"}',
    ],
)
async def test_orders_are_checked(bench: Bench, order: bytes) -> None:
    """What is not an order is 400."""
    with pytest.raises(Refused) as caught:
        await bench.ask("POST", wire.RESTORE, body=Body(order))
    assert caught.value.status == 400
