"""The agent's record on a disk that does not take everything."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from boilerhouse.node.agent.record import Baseline, Record, Restored
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.agent.agent_fixture import archive, running

RESTORED = Restored("a" * 64, "c0")
KEPT = Baseline("a" * 64, "f" * 64, until_thaw=False)
SPENT = Baseline("b" * 64, "f" * 64, until_thaw=True)


class Disk:
    """Fails as it is told to; whatever is written to a file arrives in small pieces."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.full = 0  # number of the error when something is written
        self.torn = 0  # number of the error when a directory is synced
        self._write, self._sync = os.write, os.fsync
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "fsync", self.sync)

    def write(self, file: int, content: bytes) -> int:
        if os.get_inheritable(file) or not os.path.isfile(f"/proc/self/fd/{file}"):  # noqa: PTH113
            return self._write(file, content)  # not ours: a pipe of the event loop
        if self.full:
            self._write(file, content[:1])
            raise OSError(self.full, os.strerror(self.full))
        return self._write(file, content[:7])

    def sync(self, file: int) -> None:
        if self.torn and os.path.isdir(f"/proc/self/fd/{file}"):  # noqa: PTH112
            raise OSError(self.torn, os.strerror(self.torn))
        self._sync(file)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    with monkeypatch.context() as patch:
        yield Disk(patch)


def held(record: Record) -> tuple[Restored | None, Baseline | None, int]:
    return record.restored, record.baseline, record.epoch


async def test_a_write_in_pieces_is_whole(tmp_path: Path, disk: Disk) -> None:
    """The kernel may take less than it is given."""
    record = Record(tmp_path)
    await record.write(RESTORED, KEPT)
    assert held(Record(tmp_path)) == held(record) == (RESTORED, KEPT, 0)


@pytest.mark.parametrize(
    ("number", "status", "code", "words"),
    [
        (errno.ENOSPC, 507, "disk-full", "the disk is full"),
        (errno.EDQUOT, 507, "disk-full", "the disk is full"),
        (errno.EIO, 500, "io-error", "Input/output error"),
    ],
)
async def test_what_cannot_be_written_is_refused_and_not_remembered(
    tmp_path: Path, disk: Disk, number: int, status: int, code: str, words: str
) -> None:
    """On the disk and in memory all is as it was, and no draft takes up room."""
    record = Record(tmp_path)
    await record.heed(1)
    await record.write(RESTORED, SPENT)
    disk.full = number
    for attempt in (record.heed(2), record.write(None, KEPT), record.thawing()):
        with pytest.raises(Refused, match=words) as refused:
            await attempt
        assert (refused.value.status, refused.value.code) == (status, code)
    assert held(Record(tmp_path)) == held(record) == (RESTORED, SPENT, 1)
    assert os.listdir(tmp_path) == ["record.json"]  # noqa: PTH208  only their names
    disk.full = 0
    await record.heed(2)
    assert held(Record(tmp_path)) == held(record) == (RESTORED, SPENT, 2)


async def test_a_baseline_that_only_the_disk_has_is_gone_before_the_tenant_runs(
    tmp_path: Path, disk: Disk
) -> None:
    """It was in place and could not be synced: an agent that starts later must not find it."""
    record = Record(tmp_path)
    disk.torn = errno.EIO
    with pytest.raises(Refused, match="Input/output error"):
        await record.write(None, SPENT)
    assert record.baseline is None
    disk.torn = 0
    await record.thawing()
    assert Record(tmp_path).baseline is None


@pytest.mark.processes
async def test_a_restore_that_cannot_be_noted_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are there and the record is not: refused, halted, and done anew."""
    data = archive(a=b"1")
    async with running(tmp_path) as rig:

        async def full(*_: object) -> None:
            raise Refused(507, "disk-full", "the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(Record, "write", full)
            assert (await rig.restore(data)).status == 507
        assert (await rig.state()).frozen
        assert (await rig.restore(data)).status == 200
        assert (rig.workspace / "a").read_bytes() == b"1"
