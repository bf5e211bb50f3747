"""Settling: restored files reach the disk beside the tenant's life, or their saves stay aside."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.node.agent import settling
from boilerhouse.node.agent.protocol import SaveReport
from boilerhouse.node.agent.record import Record
from tests.unit.node.agent.agent_fixture import Rig, archive, running

pytestmark = pytest.mark.processes

DATA = archive(a=b"1", b=b"two")
DIGEST = hashlib.sha256(DATA).hexdigest()


def record_file(root: Path) -> Path:
    (found,) = root.rglob("record.json")
    return found


def change(root: Path, how: Callable[[dict[str, Any]], None]) -> None:
    file = record_file(root)
    told = json.loads(file.read_bytes())
    how(told["restored"])
    file.write_text(json.dumps(told))


def settled(root: Path) -> bool:
    return bool(json.loads(record_file(root).read_bytes())["restored"]["settled"])


async def settling_ends(root: Path) -> None:
    async with asyncio.timeout(30):
        while not settled(root):  # noqa: ASYNC110  a file is all there is to look at
            await asyncio.sleep(0.01)


async def report(rig: Rig) -> SaveReport:
    return SaveReport.decode((await rig.ask("GET", "/save", ("id", "a1"))).body)


async def test_a_restore_settles_by_itself(tmp_path: Path) -> None:
    """Soon after the tenant runs, the record says that its files are on the disk."""
    async with running(tmp_path) as rig:
        await rig.restore(DATA)
        await settling_ends(tmp_path)
        told = await rig.save(known=DIGEST)
        assert json.loads(told.body)["unchanged"]


async def test_an_agent_that_died_meanwhile_settles_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine ran on, so nothing is lost: it is done later."""
    with monkeypatch.context() as patch:
        patch.setattr(settling, "sync", _failing)
        async with running(tmp_path) as rig:
            await rig.restore(DATA)
        assert not settled(tmp_path)
    async with running(tmp_path) as rig:
        await settling_ends(tmp_path)
        assert json.loads((await rig.save(known=DIGEST)).body)["unchanged"]


async def test_files_of_another_boot_that_never_settled_may_be_torn(tmp_path: Path) -> None:
    """What is saved then says so, also if nothing seems to have changed, and for ever."""
    async with running(tmp_path) as rig:
        await rig.restore(DATA)
        await settling_ends(tmp_path)

    def lose_power(restored: dict[str, Any]) -> None:
        restored.update(settled=False, boot="a boot before this one")

    change(tmp_path, lose_power)
    async with running(tmp_path) as rig:
        told = await rig.save(known=DIGEST)
        assert told.headers["content-type"] == "application/gzip"
        assert (await report(rig)).torn
    assert not settled(tmp_path)


async def test_a_settled_restore_of_another_boot_is_whole(tmp_path: Path) -> None:
    """Once the files were on the disk, a power loss takes nothing of them."""
    async with running(tmp_path) as rig:
        await rig.restore(DATA)
        await settling_ends(tmp_path)
    change(tmp_path, lambda restored: restored.update(boot="a boot before this one"))
    async with running(tmp_path) as rig:
        (rig.workspace / "a").write_bytes(b"2")
        await rig.save(known=DIGEST)
        assert not (await report(rig)).torn


def test_the_record_keeps_the_boot(tmp_path: Path) -> None:
    """A machine's run has one name for as long as it lasts."""
    assert settling.boot() == settling.boot() != ""
    assert Record(tmp_path).restored is None


def _failing(directories: object) -> None:
    raise OSError(5, "Input/output error")
