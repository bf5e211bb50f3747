"""A tenant whose disk is full: frozen with all it has, thawed when there is room."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from boilerhouse.node.agent.disk import guard as diskguard
from boilerhouse.node.agent.disk import monitor as diskmonitor
from boilerhouse.node.agent.disk.limit import DiskLimit, Shortage
from boilerhouse.node.agent.freezer.processes import Process
from boilerhouse.node.agent.protocol import Usage
from boilerhouse.platform.files.quota import DiskSpace
from boilerhouse.platform.files.unlinked import unlinked
from tests.unit.node.agent.agent_fixture import Rig, Tenants, archive, eventually, running

MB = 1 << 20
LIMIT = DiskLimit(bytes=8 * MB, inodes=50)
TENANT = Process(1 << 22, 0, 0)  # above every number that a process can have
COMMAND = Process((1 << 22) + 1, 0, 0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything as it is, but sooner."""
    monkeypatch.setattr(diskmonitor, "TICK", 0.02)
    monkeypatch.setattr(diskmonitor, "SHARE", 1.0)
    for name in ("_FIRST", "_SOON", "RECOUNT", "RECOUNT_FROZEN"):
        monkeypatch.setattr(diskguard, name, 0.05)
    monkeypatch.setattr(diskguard, "STARTING", 0.0)


@asynccontextmanager
async def limited(directory: Path, **more: Any) -> AsyncIterator[Rig]:
    async with running(directory, disk=LIMIT, **more) as rig:
        rig.tenants.found = rig.tenants.found or [TENANT]
        yield rig


async def usage(rig: Rig, gb: int = 0) -> Usage:
    query = [("diskGb", str(gb))] if gb else []
    return Usage.decode((await rig.ask("GET", "/usage", *query)).body)


async def uses(rig: Rig, at_least: int) -> bool:
    return (await usage(rig)).used >= at_least


async def ready(rig: Rig) -> int:
    return (await rig.ask("GET", "/ready", token="")).status


async def until_frozen(rig: Rig) -> None:
    await eventually(lambda: rig.tenants.story[-1:] == ["freeze, exec allowed"])


def fill(rig: Rig, megabytes: int = 9, name: str = "big") -> Path:
    file = rig.workspace / name
    file.write_bytes(os.urandom(megabytes * MB))
    return file


def test_frozen_at_the_limit_and_thawed_below_95_percent() -> None:
    """Bytes and inodes alike; what hovers in between stays what it is."""
    limit = DiskLimit.of_gb(2)
    assert limit == DiskLimit(2 << 30, 131_072)
    for frozen, used, inodes, short in (
        (False, limit.bytes - 1, 0, Shortage.NONE),
        (False, limit.bytes, 0, Shortage.BYTES),
        (True, limit.bytes * 96 // 100, 0, Shortage.BYTES),
        (True, limit.bytes * 94 // 100, 0, Shortage.NONE),
        (False, 0, limit.inodes - 1, Shortage.NONE),
        (False, 0, limit.inodes, Shortage.INODES),
        (True, 0, limit.inodes * 96 // 100, Shortage.INODES),
        (True, 0, limit.inodes * 94 // 100, Shortage.NONE),
    ):
        assert limit.shortage(used, inodes, frozen=frozen) == short


async def test_at_its_limit_it_is_frozen_until_there_is_room(tmp_path: Path) -> None:
    """The Pod is not ready meanwhile, the answer says why, and files cannot be put there."""
    async with limited(tmp_path) as rig:
        assert await ready(rig) == 204
        file = fill(rig)
        await until_frozen(rig)
        await eventually(lambda: ready_is(rig, 503))
        told = await usage(rig)
        assert (told.full, told.limit) == ("disk", LIMIT.bytes)
        refused = await rig.file("PUT", "/workspace/more", b"x")
        assert (refused.status, b"disk-full" in refused.body) == (507, True)
        assert (await rig.state()).frozen
        file.unlink()
        await eventually(lambda: rig.tenants.story[-1] == "thaw")
        await eventually(lambda: ready_is(rig, 204))
        assert (await usage(rig)).full == ""
        assert (await rig.file("PUT", "/workspace/more", b"x")).status in (200, 201, 204)


async def ready_is(rig: Rig, status: int) -> bool:
    return await ready(rig) == status


def test_a_full_machine_lowers_a_limit_to_what_is_used_and_a_bit() -> None:
    """It never raises one."""
    assert LIMIT.at_most(2 * MB, 3, DiskLimit(MB, 4)) == DiskLimit(3 * MB, 7)
    assert LIMIT.at_most(8 * MB, 49, DiskLimit(MB, 4)) == LIMIT


@pytest.mark.slow
async def test_on_a_full_machine_who_writes_on_is_frozen(tmp_path: Path) -> None:
    """Not for what it had before; until the machine has room, or it removes what it wrote."""
    async with limited(tmp_path) as rig:
        await asyncio.sleep(0.3)  # counted by then, while it is empty
        fill(rig, 3, "before")
        rig.monitor.press(DiskLimit(MB, 20))
        await asyncio.sleep(0.5)  # ticks enough for it to be frozen, if it were
        assert rig.tenants.story == []
        more = fill(rig, 2, "more")
        await until_frozen(rig)
        told = await usage(rig)
        assert (told.full, told.limit) == ("machine", LIMIT.bytes)
        more.unlink()
        await eventually(lambda: rig.tenants.story[-1] == "thaw")
        fill(rig, 2, "more")
        await until_frozen(rig)
        rig.monitor.press(None)
        await eventually(lambda: rig.tenants.story[-1] == "thaw")
        assert (await usage(rig)).full == ""


@pytest.mark.slow
async def test_a_full_machine_and_a_full_disk_of_its_own(tmp_path: Path) -> None:
    """Its own is told, and outlasts the machine's."""
    async with limited(tmp_path) as rig:
        rig.monitor.press(DiskLimit(MB, 20))
        fill(rig)
        await until_frozen(rig)
        await eventually(lambda: full_is(rig, "disk"))
        rig.monitor.press(None)
        await asyncio.sleep(0.5)  # ticks enough for it to be thawed, if it were
        assert "thaw" not in rig.tenants.story


async def full_is(rig: Rig, what: str) -> bool:
    return (await usage(rig)).full == what


async def test_too_many_files_are_a_full_disk(tmp_path: Path) -> None:
    """Names are not counted, files are."""
    async with limited(tmp_path) as rig:
        (rig.workspace / "f").touch()
        for number in range(100):
            os.link(rig.workspace / "f", rig.workspace / f"l{number}")
        assert (await usage(rig)).inodes < 10
        for number in range(60):
            (rig.workspace / f"n{number}").touch()
        await until_frozen(rig)
        assert (await usage(rig)).full == "files"


async def test_a_larger_limit_thaws_and_a_smaller_one_does_nothing(tmp_path: Path) -> None:
    """It comes with the question for the use, which then costs no walk."""
    async with limited(tmp_path) as rig:
        fill(rig)
        await until_frozen(rig)
        told = await usage(rig, gb=1)
        await eventually(lambda: rig.tenants.story[-1] == "thaw")
        told = await usage(rig, gb=1)
        assert (told.full, told.limit) == ("", 1 << 30)
        assert (await rig.ask("GET", "/usage", ("diskGb", "much"))).status == 400


@pytest.mark.slow
async def test_a_raised_limit_outlives_the_agent(tmp_path: Path) -> None:
    """One that is started again with the Pod's first limit freezes nobody who has room by now."""
    async with limited(tmp_path) as rig:
        await usage(rig, gb=1)
    tenants = Tenants(found=[TENANT])
    async with limited(tmp_path, tenants=tenants) as rig:
        fill(rig)
        for number in range(60):
            (rig.workspace / f"n{number}").touch()
        await eventually(lambda: uses(rig, LIMIT.bytes))
        told = await usage(rig)
        assert (told.limit, told.full) == (1 << 30, "")
        await asyncio.sleep(0.5)  # ticks enough for it to be frozen, if it were
        assert tenants.story == []
    larger = DiskLimit.of_gb(3)
    async with running(tmp_path, disk=larger) as rig:
        assert (await usage(rig)).limit == larger.bytes


async def test_a_raised_limit_that_cannot_be_noted_holds_all_the_same(tmp_path: Path) -> None:
    """Until the agent is started again, and is told again."""
    async with limited(tmp_path) as rig:
        (tmp_path / "state" / "disk-limit.json.new").mkdir()
        assert (await usage(rig, gb=1)).limit == 1 << 30


@pytest.mark.processes
async def test_a_save_takes_over_and_gives_back(tmp_path: Path) -> None:
    """Everything is saved; if the save comes to nothing, it is frozen for its disk as before."""
    async with limited(tmp_path) as rig:
        fill(rig)
        await until_frozen(rig)
        saved = await rig.save()
        assert saved.status == 200 and len(saved.body) > 8 * MB
        assert rig.tenants.story[-1] == "freeze"
        assert (await rig.ask("POST", "/thaw")).status == 204
        assert rig.tenants.story[-1] == "freeze, exec allowed"
        assert "thaw" not in rig.tenants.story
        assert await ready(rig) == 503


async def test_an_agent_that_begins_anew_goes_on(tmp_path: Path) -> None:
    """A tenant that was frozen stays so; one that has yet to start does, and is counted then."""
    async with limited(tmp_path) as rig:
        fill(rig)
        await until_frozen(rig)
    async with limited(tmp_path, tenants=Tenants(found=[TENANT])) as rig:
        assert rig.tenants.story == ["freeze, exec allowed"]
        assert await ready(rig) == 503
    starts = Tenants()
    async with running(tmp_path, disk=LIMIT, tenants=starts) as rig:
        assert starts.story == ["thaw"]
        assert await ready(rig) == 204
        starts.found = [TENANT]
        await until_frozen(rig)


async def test_a_tenant_that_ended_may_start_and_is_frozen_then(tmp_path: Path) -> None:
    """No container starts in a Pod that is frozen, and without one nothing can clean up."""
    async with limited(tmp_path) as rig:
        fill(rig)
        await until_frozen(rig)
        rig.tenants.found = []
        await eventually(lambda: rig.tenants.story[-1] == "thaw")
        rig.tenants.found = [TENANT]
        await until_frozen(rig)


@pytest.mark.processes
async def test_one_that_starts_above_its_limit_may_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was saved so. If it writes on, it is frozen at once."""
    monkeypatch.setattr(diskguard, "STARTING", 3600.0)
    tenants = Tenants(found=[TENANT])
    data = archive(big=os.urandom(9 * MB))
    async with limited(tmp_path, tenants=tenants) as rig:
        assert (await rig.restore(data)).status == 200
        await eventually(lambda: uses(rig, LIMIT.bytes))
        await asyncio.sleep(0.5)  # ticks enough for it to be frozen, if it were
        assert "freeze, exec allowed" not in tenants.story
        fill(rig, 1, "more")
        await until_frozen(rig)


@pytest.mark.processes
async def test_one_that_cleans_up_while_it_starts_is_not_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted again when something was removed, also if no other count is due for long."""
    monkeypatch.setattr(diskguard, "STARTING", 3600.0)
    monkeypatch.setattr(diskguard, "RECOUNT", 3600.0)
    # The kernel's own answer, without what others write meanwhile.
    free = SimpleNamespace(f_bfree=1 << 20, f_frsize=4096, f_ffree=1 << 20)
    monkeypatch.setattr(os, "statvfs", lambda path: free)
    tenants = Tenants(found=[TENANT])
    async with limited(tmp_path, tenants=tenants) as rig:
        assert (await rig.restore(archive(big=os.urandom(9 * MB)))).status == 200
        await eventually(lambda: uses(rig, LIMIT.bytes))
        await asyncio.sleep(0.5)  # counted by then
        (rig.workspace / "big").unlink()
        free.f_bfree += 9 * MB // 4096
        await asyncio.sleep(0.5)  # and again
        monkeypatch.setattr(diskguard, "STARTING", 0.0)
        await asyncio.sleep(0.5)  # ticks enough for it to be frozen, if it were
        assert "freeze, exec allowed" not in tenants.story


@pytest.mark.slow
async def test_commands_that_write_on_are_frozen_until_they_end(tmp_path: Path) -> None:
    """By 5 % of the limit on top of what was there; what they delete is never held against them."""
    async with limited(tmp_path) as rig:
        fill(rig)
        await until_frozen(rig)
        await asyncio.sleep(0.5)  # counted again by then: that is what commands may add to
        rig.tenants.found = [TENANT, COMMAND]
        fill(rig, 1, "more")
        await eventually(lambda: rig.tenants.story[-1] == "freeze")
        rig.tenants.found = [TENANT]
        await until_frozen(rig)
        rig.tenants.found = [TENANT, COMMAND]
        (rig.workspace / "more").unlink()
        (rig.workspace / "big").unlink()
        await eventually(lambda: rig.tenants.story[-1] == "thaw")


async def test_one_that_cannot_be_frozen_is_tried_again(tmp_path: Path) -> None:
    """It runs meanwhile, and is ready: nothing is said that is not so."""
    tenants = Tenants(found=[TENANT], restless=True)
    async with limited(tmp_path, tenants=tenants) as rig:
        fill(rig)
        await eventually(lambda: "thaw" in tenants.story)
        assert await ready(rig) == 204
        tenants.restless = False
        await until_frozen(rig)


async def test_it_is_not_called_frozen_before_it_stands_still(tmp_path: Path) -> None:
    """Until its last process has come to rest it is ready, and its use says nothing else."""
    rest = asyncio.Event()
    tenants = Tenants(found=[TENANT], rest=rest)
    async with limited(tmp_path, tenants=tenants) as rig:
        fill(rig)
        await eventually(lambda: being_frozen(rig))
        said = await ready(rig), (await usage(rig)).full
        rest.set()
        assert said == (204, "")
        await until_frozen(rig)
        await eventually(lambda: ready_is(rig, 503))


async def being_frozen(rig: Rig) -> bool:
    return (await rig.state()).frozen


async def test_files_beside_the_overlays_count_and_are_not_shown(tmp_path: Path) -> None:
    """What a container has written over its image; it need not be there."""
    beside = tmp_path / "upper"
    async with limited(tmp_path, beside=(tmp_path / "none", beside)) as rig:
        beside.mkdir()
        (beside / "big").write_bytes(os.urandom(9 * MB))
        await until_frozen(rig)
        told = await usage(rig)
        assert told.used >= 9 * MB > sum(told.directories.values())
        assert told.complete


@contextmanager
def holding(file: Path, script: str) -> Iterator[int]:
    """A process with a file of 9 MiB as `f` that has no name any more; yields its number."""
    holds = "import mmap, os, sys; f = open(sys.argv[1], 'w+b'); f.write(bytes(9 << 20));"
    holds += f" f.flush(); os.unlink(sys.argv[1]); {script}; print(flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", holds, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@pytest.mark.processes
async def test_files_that_are_open_and_have_no_name_count(tmp_path: Path) -> None:
    """Once each, whoever has them open; not those of other file systems."""
    async with limited(tmp_path) as rig:
        with holding(rig.workspace / "gone", "os.dup(f.fileno())") as pid:
            device = rig.workspace.stat().st_dev
            assert list(unlinked([pid], {device}).values()) == [9 * MB]
            assert unlinked([pid, 1 << 22], {device + 1}) == {}
            rig.tenants.found = [Process(pid, 0, 0)]
            await until_frozen(rig)
            told = await usage(rig)
            assert (told.full, told.unlinked) == ("disk", 9 * MB)


@pytest.mark.processes
def test_files_of_a_root_file_system_count_if_that_is_wanted(tmp_path: Path) -> None:
    """Of a process in an image they lie on that image's own layer."""
    root = Path("/").stat().st_dev
    if tmp_path.stat().st_dev != root:
        pytest.skip("the tests' directory lies on another file system than /")
    with holding(tmp_path / "gone", "pass") as pid:
        assert unlinked([pid], set()) == {}
        assert list(unlinked([pid], set(), with_roots=True).values()) == [9 * MB]


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look at what is mapped")
def test_files_that_are_only_mapped_count_too(tmp_path: Path) -> None:
    """A tenant that closes what it has mapped keeps its room all the same."""
    with holding(tmp_path / "gone", "m = mmap.mmap(f.fileno(), 0); os.closerange(3, 64)") as pid:
        assert list(unlinked([pid], {tmp_path.stat().st_dev}).values()) == [9 * MB]


class CountedQuota:
    """A file system's quota: it has counted `used`, and may be switched off."""

    def __init__(self) -> None:
        self.limits: list[DiskSpace | None] = [None]
        self.used = DiskLimit(0, 1)
        self.off = False

    def set(self, limit: DiskSpace | None) -> None:
        if self.off:
            raise OSError(errno.ESRCH, "no quotas")
        self.limits.append(limit)

    def read(self) -> tuple[DiskSpace | None, DiskSpace]:
        if self.off:
            raise OSError(errno.ESRCH, "no quotas")
        return self.limits[-1], self.used


async def told_is(rig: Rig, full: str) -> bool:
    return (await usage(rig, gb=1)).full == full


@pytest.mark.slow
async def test_with_a_quota_a_full_tenant_runs_on(tmp_path: Path) -> None:
    """It is told and takes no more files, until there is room; nothing is frozen."""
    quota = CountedQuota()
    limit = DiskLimit.of_gb(1)
    async with running(tmp_path, disk=limit, quota=quota) as rig:
        rig.tenants.found = [TENANT]
        assert quota.limits == [None, limit]
        quota.used = DiskLimit(limit.bytes - 4096, 100)
        await eventually(lambda: told_is(rig, "quota"))
        assert await ready(rig) == 204
        assert (await rig.file("PUT", "/workspace/more", b"x")).status == 507
        quota.used = DiskLimit(limit.bytes * 97 // 100, 100)
        await asyncio.sleep(0.3)  # ticks enough for it to be told otherwise, if it were
        assert await told_is(rig, "quota")
        quota.used = DiskLimit(MB, 100)
        await eventually(lambda: told_is(rig, ""))
        assert (await rig.file("PUT", "/workspace/more", b"x")).status in (200, 201, 204)
        assert rig.tenants.story == []


async def test_a_larger_disk_is_a_larger_quota_and_stays(tmp_path: Path) -> None:
    """Also for the next agent of the instance, which is told of the old one."""
    quota = CountedQuota()
    async with running(tmp_path, disk=LIMIT, quota=quota) as rig:
        await usage(rig, gb=3)
        assert quota.limits[-1] == DiskLimit.of_gb(3)
        await usage(rig, gb=2)
        assert quota.limits[-1] == DiskLimit.of_gb(3)
    async with running(tmp_path, disk=LIMIT, quota=quota) as rig:
        assert quota.limits[-1] == DiskLimit.of_gb(3)
        assert (await usage(rig)).limit == 3 << 30


@pytest.mark.processes
async def test_a_restore_knows_no_quota(tmp_path: Path) -> None:
    """It is lifted until the files are there, also those that the tenant's start waits for."""
    quota, body = CountedQuota(), archive(a=b"a")
    digest = hashlib.sha256(body).hexdigest()
    async with running(tmp_path, disk=LIMIT, quota=quota, restore=digest) as rig:
        assert quota.limits[-1] is None
        wrong = (("digest", "0" * 64), ("mode", "cold"))
        assert (await rig.ask("POST", "/restore", *wrong, body=body)).status == 422
        assert quota.limits[-1] is None
        right = (("digest", digest), ("mode", "cold"))
        assert (await rig.ask("POST", "/restore", *right, body=body)).status == 200
        assert quota.limits[-2:] == [None, LIMIT]
        before = len(quota.limits)
        assert (await rig.ask("POST", "/restore", *right, body=body)).status == 200
        assert len(quota.limits) == before


async def test_what_is_above_its_quota_has_room_to_start(tmp_path: Path) -> None:
    """An image's container has to make places for its mounts; a restart has the same room again."""
    quota = CountedQuota()
    quota.used = DiskLimit(20 * MB, 10)
    async with running(tmp_path, disk=LIMIT, quota=quota):
        assert quota.limits[-1] == DiskLimit(21 * MB, LIMIT.inodes)
    quota.used = DiskLimit(MB, 100)
    async with running(tmp_path, disk=LIMIT, quota=quota):
        assert quota.limits[-1] == DiskLimit(LIMIT.bytes, 132)


@pytest.mark.slow
async def test_a_quota_that_fails_is_none(tmp_path: Path) -> None:
    """Then the tenant is counted by a walk, and frozen."""
    quota = CountedQuota()
    async with running(tmp_path, disk=LIMIT, quota=quota) as rig:
        rig.tenants.found = [TENANT]
        fill(rig)
        await asyncio.sleep(0.3)  # ticks enough for it to be frozen, if it were
        assert rig.tenants.story == []
        quota.off = True
        await until_frozen(rig)


@pytest.mark.slow
async def test_a_full_machine_freezes_who_has_a_quota_too(tmp_path: Path) -> None:
    """A quota is no right to what is not there."""
    quota = CountedQuota()
    async with running(tmp_path, disk=LIMIT, quota=quota) as rig:
        rig.tenants.found = [TENANT]
        quota.used = DiskLimit(9 * MB, 10)
        rig.monitor.press(DiskLimit(MB, 20))
        await asyncio.sleep(0.3)  # ticks enough for it to be frozen, if it were
        assert rig.tenants.story == []
        quota.used = DiskLimit(11 * MB, 10)
        await until_frozen(rig)
        assert (await usage(rig)).full == "machine"
