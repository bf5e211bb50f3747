"""Saving: a stream of what a halted tenant has, and what happens to the tenant then."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import socket
import tarfile
from pathlib import Path

import pytest

from boilerhouse.node.agent import saving
from boilerhouse.node.agent.protocol import HALTING, IdentityFiles, SaveReport
from boilerhouse.platform.rpc.message import Request
from boilerhouse.platform.rpc.peer import Peer, Unreachable
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER
from tests.unit.node.agent.agent_fixture import SECRET, Rig, Tenants, archive, running

pytestmark = pytest.mark.processes

ANNA = IdentityFiles("anna", "shop", "claim-anna", "token", "http://api").encode()


async def report(rig: Rig, identifier: str = "a1") -> SaveReport:
    return SaveReport.decode((await rig.ask("GET", "/save", ("id", identifier))).body)


async def test_a_save_is_an_archive_of_a_halted_tenant(rig: Rig) -> None:
    """Any tar reads it; its report is of these very bytes; the tenant stays halted."""
    (rig.workspace / "a").write_bytes(b"content")
    told = await rig.save()
    assert (told.status, told.headers["content-type"]) == (200, "application/gzip")
    with tarfile.open(fileobj=io.BytesIO(told.body)) as tar:
        assert {"workspace", "workspace/a", "var/data"} <= set(tar.getnames())
        content = tar.extractfile("workspace/a")
        assert content is not None
        assert content.read() == b"content"
    found = await report(rig)
    assert (found.sha256, found.size) == (hashlib.sha256(told.body).hexdigest(), len(told.body))
    assert found.stable
    assert rig.tenants.story == ["freeze"]
    assert await rig.state() == await rig.state()
    assert (await rig.state()).frozen


async def test_what_no_archive_can_keep_is_named(rig: Rig) -> None:
    """Not all of them: the report is small, however many there are."""
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(12)]
    try:
        for number, listener in enumerate(listeners):
            listener.bind(str(rig.workspace / f"s{number}"))
        await rig.save()
    finally:
        for listener in listeners:
            listener.close()
    found = await report(rig)
    assert len(found.skipped) == 10
    assert "workspace/s0" in " ".join(found.skipped)
    assert "a socket, which cannot be kept" in found.skipped[0]


async def test_what_is_committed_is_the_baseline_of_the_next(rig: Rig) -> None:
    """Nothing changed since: the version's digest comes back instead of bytes."""
    (rig.workspace / "a").write_bytes(b"content")
    digest = hashlib.sha256((await rig.save()).body).hexdigest()
    assert (await rig.saved(digest)).status == 204
    assert (await rig.saved(digest)).status == 204
    assert (await rig.state()).baseline == digest
    told = await rig.save(known=digest, identifier="a2")
    assert json.loads(told.body) == {"unchanged": True, "digest": digest}
    assert (await rig.saved(digest, "a2")).status == 204
    unknown = await rig.save(known="0" * 64, identifier="a3")
    assert unknown.headers["content-type"] == "application/gzip"
    (rig.workspace / "a").write_bytes(b"CONTENT")
    changed = await rig.save(known=digest, identifier="a4")
    assert changed.headers["content-type"] == "application/gzip"


async def test_a_tenant_that_ran_on_has_no_baseline(rig: Rig) -> None:
    """A page that it had mapped may change unseen, so after a thaw everything is sent."""
    digest = hashlib.sha256((await rig.save()).body).hexdigest()
    await rig.saved(digest)
    assert (await rig.ask("POST", "/thaw")).status == 204
    assert (await rig.ask("POST", "/thaw")).status == 204
    state = await rig.state()
    assert (state.baseline, state.frozen) == ("", False)
    told = await rig.save(known=digest, identifier="a2")
    assert told.headers["content-type"] == "application/gzip"
    assert rig.tenants.story == ["freeze", "thaw", "thaw", "freeze"]


async def test_what_changes_meanwhile_is_told(rig: Rig) -> None:
    """A difference between before and after makes a save unstable: it cannot be committed."""
    # More than fits into the pipes: the worker cannot be through with its second look yet.
    (rig.workspace / "a").write_bytes(os.urandom(4 << 20))
    answer = await rig.agent.handle(
        Request("POST", "/save", (("id", "a1"),), {TOKEN_HEADER: SECRET})
    )
    sent = await anext(answer.body)
    (rig.workspace / "late").write_bytes(b"")
    async for piece in answer.body:
        sent += piece
    await answer.body.close()
    assert not (await report(rig)).stable
    told = await rig.saved(hashlib.sha256(sent).hexdigest())
    assert (told.status, json.loads(told.body)["code"]) == (409, "not-stable")
    assert (await rig.state()).frozen
    again = await rig.save(identifier="a2")
    assert (await report(rig, "a2")).stable
    assert (await rig.saved(hashlib.sha256(again.body).hexdigest(), "a2")).status == 204


async def test_a_stream_that_is_not_read_to_its_end_lets_the_tenant_run(rig: Rig) -> None:
    """The connection breaks in the middle: thawed, and the save says why it failed."""
    (rig.workspace / "a").write_bytes(os.urandom(12 << 20))
    answer = await Peer("127.0.0.1", rig.port)(
        Request("POST", "/save", (("id", "a1"),), {TOKEN_HEADER: SECRET})
    )
    await anext(answer.body)
    assert (await rig.ask("GET", "/save", ("id", "a1"))).status == 409
    await answer.body.close()
    async with asyncio.timeout(10):
        while (await rig.state()).frozen:  # noqa: ASYNC110  asked as anybody would
            await asyncio.sleep(0.01)
    told = await rig.ask("GET", "/save", ("id", "a1"))
    assert (told.status, json.loads(told.body)["code"]) == (500, "save-failed")
    assert rig.tenants.story == ["freeze", "thaw"]


async def test_a_newer_save_ends_an_older_one(rig: Rig) -> None:
    """The helper was restarted in the middle: what it asks now counts; the tenant stays halted."""
    (rig.workspace / "a").write_bytes(os.urandom(12 << 20))
    old = await rig.agent.handle(Request("POST", "/save", (("id", "a1"),), {TOKEN_HEADER: SECRET}))
    await anext(old.body)
    new = await rig.save(identifier="a2")
    with pytest.raises(Unreachable, match="another save"):
        await anext(old.body)
    await old.body.close()
    assert (await rig.ask("GET", "/save", ("id", "a1"))).status == 404
    assert (await rig.saved(hashlib.sha256(new.body).hexdigest(), "a2")).status == 204
    assert rig.tenants.story == ["freeze", "freeze"]


async def test_a_helper_that_falls_silent_is_not_waited_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the middle of a stream nor after it does a tenant stay halted for ever."""
    monkeypatch.setattr(saving, "SILENCE", 0.05)
    monkeypatch.setattr(saving, "WORD", 0.05)
    (rig.workspace / "a").write_bytes(os.urandom(4 << 20))
    stuck = await rig.agent.handle(
        Request("POST", "/save", (("id", "a1"),), {TOKEN_HEADER: SECRET})
    )
    await anext(stuck.body)
    async with asyncio.timeout(10):
        while (await rig.state()).frozen:  # noqa: ASYNC110  asked as anybody would
            await asyncio.sleep(0.01)
    digest = hashlib.sha256((await rig.save(identifier="a2")).body).hexdigest()
    async with asyncio.timeout(10):
        while (await rig.state()).frozen:  # noqa: ASYNC110  asked as anybody would
            await asyncio.sleep(0.01)
    told = await rig.saved(digest, "a2")
    assert (told.status, json.loads(told.body)["code"]) == (500, "save-failed")


async def test_a_tenant_that_cannot_be_halted_is_not_saved(rig: Rig) -> None:
    """The answer says why, and the tenant runs."""
    rig.tenants.restless = True
    told = await rig.save()
    assert (told.status, json.loads(told.body)["code"]) == (503, "cannot-freeze")
    assert not (await rig.state()).frozen


async def test_only_the_bytes_that_were_sent_are_committed(rig: Rig) -> None:
    """Another digest, or a save nobody made, is refused, and the tenant is not taken for saved."""
    await rig.save()
    told = await rig.saved("0" * 64)
    assert (told.status, json.loads(told.body)["code"]) == (409, "other-digest")
    assert (await rig.saved("0" * 64, "b7")).status == 404
    assert (await rig.save(identifier="../x")).status == 400


async def test_an_agent_begun_anew_knows_what_to_do_with_a_halted_tenant(tmp_path: Path) -> None:
    """Killed in the middle of a save it lets the tenant run; killed after the commit, not."""
    tenants = Tenants()
    async with running(tmp_path, tenants=tenants) as rig:
        digest = hashlib.sha256((await rig.save()).body).hexdigest()
        # As if it had been killed: what it left on the disk is what an agent after it finds.
        hold = (tmp_path / "state" / "hold").read_text()
        await rig.saved(digest)
    async with running(tmp_path, tenants=tenants) as rig:
        assert (await rig.state()).frozen
        assert await rig.started() == 503
        assert (await rig.saved(digest)).status == 204
    assert tenants.story == ["freeze", "freeze"]
    (tmp_path / "state" / "hold").write_text(hold)
    async with running(tmp_path, tenants=tenants) as rig:
        assert not (await rig.state()).frozen
        assert await rig.started() == 204
    assert tenants.story == ["freeze", "freeze", "thaw"]


async def test_a_tenant_that_is_not_at_rest_yet_is_told(rig: Rig) -> None:
    """Whoever waits for a save learns from the state that the tenant is what takes so long."""
    assert HALTING not in (await rig.ask("GET", "/state")).headers
    rig.tenants.rest = asyncio.Event()
    saving = asyncio.create_task(rig.save())
    async with asyncio.timeout(20):
        while HALTING not in (await rig.ask("GET", "/state")).headers:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    rig.tenants.rest.set()
    assert (await saving).status == 200
    assert HALTING not in (await rig.ask("GET", "/state")).headers


async def test_who_is_asked_to_end_stays_until_it_is_saved(rig: Rig) -> None:
    """A Pod that is deleted from outside: its agent waits for the save, if it is anybody's."""
    await asyncio.wait_for(rig.agent.dispensable(), 5)  # nobody's: at once
    await rig.ask("PUT", "/identity", body=ANNA)
    assert (await rig.state()).bound
    waiting = asyncio.create_task(rig.agent.dispensable())
    await rig.save()
    await rig.ask("POST", "/thaw")
    digest = hashlib.sha256((await rig.save(identifier="a2")).body).hexdigest()
    await asyncio.sleep(0)
    assert not waiting.done()
    await rig.saved(digest, "a2")
    await asyncio.wait_for(waiting, 5)


async def test_what_was_not_restored_is_not_saved(tmp_path: Path) -> None:
    """What still waits for its data must never replace a snapshot, nor keep its agent."""
    async with running(tmp_path, restore="d" * 64) as rig:
        await rig.ask("PUT", "/identity", body=ANNA)
        told = await rig.save()
        assert (told.status, json.loads(told.body)["code"]) == (409, "not-restored")
        assert (await rig.ask("POST", "/thaw")).status == 409
        await asyncio.wait_for(rig.agent.dispensable(), 5)
        assert (await rig.restore(archive(a=b"1"), "cold")).status == 200
        assert (await rig.save()).status == 200
