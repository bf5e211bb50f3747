"""Restoring: a snapshot into an instance, once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import shutil
import threading
from pathlib import Path

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.node.agent.agent import Agent, Config
from boilerhouse.node.agent.protocol import RestoreReport
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Body, Request, answering
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused
from tests.unit.node.agent.agent_fixture import SECRET, Rig, Tenants, archive, running

pytestmark = pytest.mark.processes

DATA = archive(a=b"1", b=b"two")
DIGEST = hashlib.sha256(DATA).hexdigest()
OTHER = archive(a=b"another")


def content(rig: Rig) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in rig.workspace.iterdir()}


async def test_a_warm_instance_gets_its_data_and_a_new_life(rig: Rig) -> None:
    """What was there is gone, what was saved is there, and the tenant was killed, not asked."""
    (rig.workspace / "old").write_bytes(b"of nobody")
    told = await rig.restore(DATA)
    assert RestoreReport.decode(told.body) == RestoreReport(False, "c0", ())
    assert content(rig) == {"a": b"1", "b": b"two"}
    assert rig.tenants.story == ["freeze", "kill"]
    state = await rig.state()
    assert (state.restored, state.baseline, state.frozen, state.bound) == (
        DIGEST,
        DIGEST,
        False,
        True,
    )


@pytest.mark.parametrize(("mode", "times"), [("restart", 1), ("live", 0)])
async def test_who_starts_the_tenant_again_is_told_in_time(rig: Rig, mode: str, times: int) -> None:
    """Only if it is to be killed, and not again once it was."""
    for _ in range(2):
        assert (await rig.restore(DATA, mode)).status == 200
    assert rig.tenants.prepared == times


async def test_nothing_is_ever_restored_twice(tmp_path: Path) -> None:
    """The same again changes nothing, another snapshot is refused, also by an agent begun anew."""
    async with running(tmp_path) as rig:
        await rig.restore(DATA)
        (rig.workspace / "a").write_bytes(b"work of today")
        again = RestoreReport.decode((await rig.restore(DATA)).body)
        assert (again.already, again.container) == (True, "c0")
        assert rig.tenants.story == ["freeze", "kill"]
    async with running(tmp_path) as rig:
        assert RestoreReport.decode((await rig.restore(DATA)).body).already
        told = await rig.restore(OTHER)
        assert (told.status, json.loads(told.body)["code"]) == (409, "restored-already")
        assert content(rig)["a"] == b"work of today"
        assert rig.tenants.story == []


async def test_unchanged_since_the_restore(rig: Rig) -> None:
    """A save right after a restore has nothing to send; after a change it has."""
    await rig.restore(DATA)
    told = await rig.save(known=DIGEST)
    assert json.loads(told.body) == {"unchanged": True, "digest": DIGEST}
    await rig.saved(DIGEST)
    await rig.ask("POST", "/thaw")
    assert (await rig.state()).baseline == DIGEST
    (rig.workspace / "a").write_bytes(b"2")
    told = await rig.save(known=DIGEST, identifier="a2")
    assert told.headers["content-type"] == "application/gzip"


async def test_a_cold_instance_waits_for_its_data(tmp_path: Path) -> None:
    """kubelet is told to wait until the snapshot is in place; nobody is halted or killed."""
    async with running(tmp_path, restore=DIGEST) as rig:
        assert await rig.started() == 503
        assert RestoreReport.decode((await rig.restore(DATA, "cold")).body).container == ""
        assert await rig.started() == 204
        assert rig.tenants.story == []
    async with running(tmp_path, restore=DIGEST) as rig:
        assert await rig.started() == 204


async def test_who_unpacks_is_there_before_the_bytes(tmp_path: Path) -> None:
    """In an instance that waits for a restore; and ends with an agent that had none."""
    before = workers()
    async with running(tmp_path) as rig:
        await rig.started()
        assert workers() == before
    async with running(tmp_path, restore=DIGEST) as rig:
        await rig.started()
        await rig.started()
        async with asyncio.timeout(30):
            while not workers() - before:  # noqa: ASYNC110  a process says nothing when it is there
                await asyncio.sleep(0.01)
        assert len(workers() - before) == 1
    assert workers() == before
    async with running(tmp_path, restore=DIGEST) as rig:
        await rig.started()
        (rig.workspace / "left over").touch()
        assert (await rig.restore(OTHER, "cold", digest=DIGEST)).status == 422
        assert (await rig.restore(DATA, "cold")).status == 200
        assert content(rig) == {"a": b"1", "b": b"two"}
        assert workers() == before


def workers() -> set[int]:
    own = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
    return {int(pid) for pid in own.read_text().split()}


async def test_who_waits_for_the_files_is_told_that_they_are_there(tmp_path: Path) -> None:
    """Not before they are: a restore that failed is nothing to tell."""
    for name in ("identity", "overlay", "state"):
        (tmp_path / name).mkdir()
    told: list[dict[str, bytes]] = []
    overlay = tmp_path / "overlay"

    def restored() -> None:
        told.append({file.name: file.read_bytes() for file in overlay.iterdir()})

    config = Config(
        tmp_path / "identity", {"/workspace": overlay}, tmp_path / "state", SECRET, DIGEST,
        changed=restored,
    )  # fmt: skip
    agent = Agent(config, Tenants(), SystemClock())
    query = (("digest", DIGEST), ("mode", "cold"))
    for body in (OTHER, DATA):
        request = Request("POST", "/restore", query, {TOKEN_HEADER: SECRET}, Body(body))
        await answering(agent.handle)(request)
        assert told == ([] if body == OTHER else [{"a": b"1", "b": b"two"}])
    await agent.stop()


async def test_a_running_tenant_is_not_restored_as_if_it_were_cold(rig: Rig) -> None:
    """Only an instance that was told to wait has no tenant yet."""
    (rig.workspace / "a").write_bytes(b"mine")
    told = await rig.restore(DATA, "cold")
    assert (told.status, json.loads(told.body)["code"]) == (409, "not-cold")
    assert content(rig) == {"a": b"mine"}


async def test_a_live_restore_lets_the_tenant_go_on(rig: Rig) -> None:
    """Halted while its files change, and not killed."""
    await rig.restore(DATA, "live")
    assert content(rig) == {"a": b"1", "b": b"two"}
    assert rig.tenants.story == ["freeze", "thaw"]
    assert (await rig.state()).baseline == DIGEST


@pytest.mark.parametrize(
    ("body", "digest"),
    [(OTHER, DIGEST), (DATA[:-20], hashlib.sha256(DATA[:-20]).hexdigest()), (b"no", "0" * 64)],
    ids=["other bytes", "cut short", "no archive"],
)
async def test_wrong_bytes_are_no_data(tmp_path: Path, body: bytes, digest: str) -> None:
    """They leave nothing, the tenant stays halted, nothing is saved; the next try can succeed."""
    async with running(tmp_path) as rig:
        told = await rig.restore(body, digest=digest)
        assert (told.status, json.loads(told.body)["code"]) == (422, "bad-archive")
        assert content(rig) == {}
        assert rig.tenants.story == ["freeze"]
        assert (await rig.state()).restored == ""
        assert await rig.started() == 503
        assert (await rig.save()).status == 409
        assert (await rig.ask("POST", "/thaw")).status == 409
    async with running(tmp_path) as rig:  # however often the agent begins anew
        assert rig.tenants.story == ["freeze"]
        assert (await rig.state()).frozen
        assert (await rig.restore(DATA)).status == 200
        assert content(rig) == {"a": b"1", "b": b"two"}
        assert rig.tenants.story == ["freeze", "freeze", "kill"]


class Breaks(Body):
    """Some bytes, then the connection is gone."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.length = None

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            raise Broken("gone") from None


async def test_a_stream_that_breaks_off_is_tried_again_from_the_start(rig: Rig) -> None:
    """What had arrived is removed before anything else is unpacked."""
    query = (("digest", DIGEST), ("mode", "restart"))
    with pytest.raises(Broken):
        await rig.agent.handle(
            Request("POST", "/restore", query, {TOKEN_HEADER: SECRET}, Breaks(OTHER[:-1]))
        )
    assert (await rig.state()).frozen
    (rig.workspace / "half").write_bytes(b"")
    assert (await rig.restore(DATA)).status == 200
    assert content(rig) == {"a": b"1", "b": b"two"}


async def test_a_restore_that_was_cut_off_before_the_kill_is_ended(tmp_path: Path) -> None:
    """The record is there, the old life still halted: the next agent kills it, once."""
    tenants = Tenants()
    async with running(tmp_path, tenants=tenants) as rig:
        await rig.restore(DATA)
    (tmp_path / "state" / "hold").write_text("restart")
    async with running(tmp_path, tenants=tenants) as rig:
        assert tenants.story == ["freeze", "kill", "kill"]
        assert not (await rig.state()).frozen
        assert await rig.started() == 204
    async with running(tmp_path, tenants=tenants):
        assert tenants.story == ["freeze", "kill", "kill"]


async def test_an_instance_that_was_saved_is_not_restored(rig: Rig) -> None:
    """Its data is newer than any snapshot it could get."""
    (rig.workspace / "a").write_bytes(b"mine")
    await rig.save()
    told = await rig.restore(DATA)
    assert (told.status, json.loads(told.body)["code"]) == (409, "saved")
    assert content(rig) == {"a": b"mine"}


async def test_one_restore_at_a_time(rig: Rig) -> None:
    """A second caller is told to come back; the first one's bytes are not touched."""
    halted, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(Body):
        def __init__(self) -> None:
            super().__init__(DATA)

        async def __anext__(self) -> bytes:
            halted.set()
            await goes_on.wait()
            return await super().__anext__()

    query = (("digest", DIGEST), ("mode", "restart"))
    first = asyncio.create_task(
        rig.agent.handle(Request("POST", "/restore", query, {TOKEN_HEADER: SECRET}, Slow()))
    )
    await halted.wait()
    told = await rig.restore(OTHER)
    assert (told.status, json.loads(told.body)["code"]) == (409, "busy")
    assert (await rig.save()).status == 409
    goes_on.set()
    assert (await first).status == 200
    assert content(rig) == {"a": b"1", "b": b"two"}


async def test_an_agent_that_ends_writes_nothing_any_more(tmp_path: Path) -> None:
    """Who restores in process hears of the end; what is removed afterwards stays away."""
    halted, goes_on = asyncio.Event(), asyncio.Event()

    class Halting(Body):
        """Stops before its last piece."""

        async def __anext__(self) -> bytes:
            if len(pieces) == 1:
                halted.set()
                await goes_on.wait()
            return pieces.pop(0)

    rng = random.Random(1)
    data = archive(**{f"f{number}": rng.randbytes(20_000) for number in range(100)})
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    query = (("digest", DIGEST), ("mode", "restart"))
    async with running(tmp_path) as rig:
        restoring = asyncio.create_task(
            rig.agent.handle(
                Request("POST", "/restore", query, {TOKEN_HEADER: SECRET}, Halting(b""))
            )
        )
        await halted.wait()
        assert content(rig)
    shutil.rmtree(rig.workspace)
    goes_on.set()
    with pytest.raises(Refused) as refused:
        await restoring
    assert refused.value.status == 500
    assert not rig.workspace.exists()
    with pytest.raises(Refused, match="ends"):
        await rig.agent.handle(
            Request("POST", "/restore", query, {TOKEN_HEADER: SECRET}, Body(DATA))
        )


@pytest.mark.parametrize(
    ("mode", "digest", "code"),
    [("warm", DIGEST, "bad-mode"), ("restart", "x" * 64, "bad-digest")],
)
async def test_what_is_asked_wrongly(rig: Rig, mode: str, digest: str, code: str) -> None:
    """Said before anything is touched."""
    told = await rig.restore(DATA, mode, digest)
    assert (told.status, json.loads(told.body)["code"]) == (400, code)
    assert rig.tenants.story == []


async def test_a_tenant_that_cannot_be_halted_keeps_its_files(rig: Rig) -> None:
    """Nothing is emptied under a program that runs."""
    (rig.workspace / "a").write_bytes(b"mine")
    rig.tenants.restless = True
    assert (await rig.restore(DATA)).status == 503
    assert content(rig) == {"a": b"mine"}
    assert (await rig.state()).frozen is False
