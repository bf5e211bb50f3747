"""Files written by two processes: they leave behind what one would, and fail where one would."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from boilerhouse.platform.archive import batch, tree
from boilerhouse.platform.archive import parallel_writer as parallel_writer
from boilerhouse.platform.archive import workers as archive_workers
from boilerhouse.platform.archive.failures import ArchiveError
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.reader import Reader
from boilerhouse.platform.archive.source import Source
from boilerhouse.platform.archive.unpack import Unpack
from boilerhouse.platform.archive.unpacker import Unpacker
from boilerhouse.platform.archive.walk import OPEN_DIRECTORY
from boilerhouse.platform.archive.workers import Workers
from tests.security.archives.hostile import (
    END,
    directory,
    entry,
    fifo,
    file,
    hard_link,
    stream,
    symlink,
)
from tests.unit.platform.archive.archive_fixture import described
from tests.unit.platform.archive.test_workers import children, runs, stem_of

pytestmark = pytest.mark.processes

DATED = 1_700_000_000 * 10**9  # what `entry` gives


class Attempt:
    """An archive unpacked in this process. `then`, by number of a member, is called before it."""

    def __init__(
        self,
        members: list[bytes],
        where: Path,
        then: dict[int, Callable[[Attempt], None]] | None = None,
    ) -> None:
        self.failure = ""
        where.mkdir()
        root = os.open(where, OPEN_DIRECTORY)
        source = Source(partial_of(self._pieces(members, then or {})))
        reader = Reader(source, 1_000, 1 << 30)
        self.unpack = Unpack(source, reader, [(b"workspace", root)], owners=False)
        try:
            self.unpack.run()
        except ArchiveError as error:
            self.failure = str(error)
        finally:
            os.close(root)

    def _pieces(
        self, members: list[bytes], then: dict[int, Callable[[Attempt], None]]
    ) -> Iterator[bytes]:
        for number, member in enumerate(chain(members, [END])):
            if number in then:
                then[number](self)
            yield member

    @property
    def second(self) -> int | None:
        """The number of its second process, if it has one."""
        found = self.unpack._writer._writer_process
        return None if found is None else found._pid


def partial_of(pieces: Iterator[bytes]) -> Callable[[], bytes]:
    return lambda: next(pieces, b"")


@pytest.fixture
def in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process is there from the start, and each file is a batch."""
    monkeypatch.setattr(parallel_writer, "_ALONE", 0)
    monkeypatch.setattr(batch, "PARTS", 1)


def some_members(rng: random.Random) -> list[bytes]:
    """Return entries that get in each other's way more often than not."""

    def name() -> bytes:
        return b"/".join([b"workspace", *rng.choices([b"a", b"b", b"c"], k=rng.randint(1, 3))])

    makers = [
        lambda: file(name(), rng.randbytes(rng.randrange(3000)), rng.choice([0o600, 0o444])),
        lambda: file(name(), rng.randbytes(rng.randrange(3000))),
        lambda: file(name(), bytes([rng.randrange(256)]) * 70_000),
        lambda: directory(name() + b"/", rng.choice([0o755, 0o700, 0o500])),
        lambda: hard_link(name(), name()),
        lambda: symlink(name(), b"anywhere"),
        lambda: fifo(name()),
        lambda: entry(name(), content=b"x", records={b"SCHILY.xattr.user.a": b"v"}),
    ]
    return [rng.choice(makers)() for _ in range(rng.randrange(2, 14))]


def left_behind(where: Path) -> dict[bytes, tuple[object, ...]]:
    """Describe a tree; what has no time of its own has the moment at which it was made."""
    return {
        name: (*facts[:2], facts[2] == DATED, *facts[3:])
        for name, facts in described(where).items()
    }


def test_two_leave_behind_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever entries replace, link or lie below each other: the same tree or the same refusal."""
    rng = random.Random(8)
    taken, reasons = 0, set()
    for number in range(250):
        members = some_members(rng)
        alone = Attempt(members, tmp_path / f"{number}-one")
        with monkeypatch.context() as patch:
            patch.setattr(parallel_writer, "_ALONE", 0)
            patch.setattr(batch, "PARTS", rng.randint(1, 3))
            both = Attempt(members, tmp_path / f"{number}-two")
        assert both.failure == alone.failure, members
        if not alone.failure:
            taken += 1
            assert left_behind(tmp_path / f"{number}-two") == left_behind(
                tmp_path / f"{number}-one"
            )
        reasons.add(alone.failure.partition(":")[0])
        for made in ("one", "two"):
            shutil.rmtree(tmp_path / f"{number}-{made}")
    assert taken > 20
    assert reasons >= {"twice", "through-link", "bad-link"}


def test_what_lies_deep_is_made_like_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directories that are filled elsewhere, moved, closed and opened again: the same tree."""
    rng = random.Random(9)
    taken = 0
    for number in range(150):
        members = some_members(rng)
        usual = Attempt(members, tmp_path / f"{number}-usual")
        with monkeypatch.context() as patch:
            patch.setattr(tree, "DEEP", rng.randint(1, 2))
            patch.setattr(tree, "_OPEN", rng.randint(1, 2))
            deep = Attempt(members, tmp_path / f"{number}-deep")
        assert deep.failure == usual.failure, members
        if not usual.failure:
            taken += 1
            made = [left_behind(tmp_path / f"{number}-{which}") for which in ("usual", "deep")]
            assert made[0] == made[1], members
        for which in ("usual", "deep"):
            shutil.rmtree(tmp_path / f"{number}-{which}")
    assert taken > 20


@pytest.mark.usefixtures("in_two")
def test_a_directory_gets_its_time_after_its_last_file(tmp_path: Path) -> None:
    """However long the other process takes: every mode and time is as the archive has it."""
    members = [directory(b"workspace/", 0o755)]
    for number in range(60):
        members.append(directory(b"workspace/%d/" % number, 0o500))
        members += [file(b"workspace/%d/%d" % (number, n), bytes(5_000)) for n in range(6)]
    made = Attempt(members, tmp_path / "overlay")
    assert made.failure == ""
    found = described(tmp_path / "overlay")
    assert len(found) == 1 + 60 * 7
    assert {facts[2] for facts in found.values()} == {DATED}
    modes = {facts[1] for facts in found.values() if facts[0] == stat.S_IFDIR}
    assert modes == {0o755, 0o500}


def test_a_little_takes_one_process(tmp_path: Path) -> None:
    """A megabyte in fifty files is there sooner than a second process would be."""
    seen: list[int | None] = []
    members = [file(b"workspace/%d" % number, bytes(20_000)) for number in range(50)]
    made = Attempt(members, tmp_path / "overlay", {50: lambda made: seen.append(made.second)})
    assert (made.failure, seen) == ("", [None])


@pytest.mark.usefixtures("in_two")
def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The first file that fails is told, though others were begun, and nobody writes any more."""
    members = [file(b"workspace/%d" % number, b"x") for number in range(20)]
    members[7] = file(b"workspace/large", bytes(300_000))
    members[9] = file(b"workspace/later", bytes(300_000))
    seconds: list[int | None] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        made = Attempt(members, tmp_path / "o", {5: lambda made: seconds.append(made.second)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert made.failure == "too-large: 'workspace/large' is larger than a file can be here"
    assert seconds[0] is not None and not runs(seconds[0])


@pytest.mark.usefixtures("in_two")
def test_a_second_process_that_dies_is_missed(tmp_path: Path) -> None:
    """What it had and did not write is not taken for written."""

    def kill(made: Attempt) -> None:
        assert made.second is not None
        os.kill(made.second, signal.SIGKILL)

    members = [file(b"workspace/%d" % number, b"x") for number in range(40)]
    made = Attempt(members, tmp_path / "overlay", {10: kill})
    assert made.failure.startswith("worker-died: the second process")


async def test_who_aborts_has_neither_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When `abort` returns, no process is there that could write."""
    monkeypatch.setattr(archive_workers, "PAUSE", 0.0)
    workers = Workers(zygote=True)
    workers.prepare()
    zygote = await stem_of(workers)
    names = (b"workspace/%d" % number for number in range(2_000))
    pieces = stream(file(name, random.Random(name).randbytes(20_000)) for name in names)
    unpacker = Unpacker({"/workspace": tmp_path}, limits=Limits(), owners=Owners(), workers=workers)
    seconds: list[int] = []
    async with asyncio.timeout(30):
        while not seconds:
            await unpacker.feed(next(pieces))
            for first in children(zygote):
                seconds = children(first)
    await unpacker.abort()
    assert not any(runs(pid) for pid in seconds)
    assert children(zygote) == []
    await workers.close()
