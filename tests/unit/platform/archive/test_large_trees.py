"""Large things in little memory: huge files, and many of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.absence import absent

pytestmark = pytest.mark.processes

MIB = 1 << 20
# Packs one tree to a file (or to nowhere: "-") and unpacks it into another directory; says how much
# the worker took.
ROUND = """
import asyncio, json, resource, sys
from pathlib import Path
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.packer import Packer
from boilerhouse.platform.archive.unpacker import Unpacker

source, target, archive = map(Path, sys.argv[1:])

async def stored(packer, unpacker):
    with archive.open("wb") as out:
        async for piece in packer:
            out.write(piece)
    await packer.close()
    with archive.open("rb") as stored:
        while piece := stored.read(1 << 18):
            await unpacker.feed(piece)

async def passed_on(packer, unpacker):
    async for piece in packer:
        await unpacker.feed(piece)
    await packer.close()

async def main():
    packer = Packer({"/w": source}, owners=Owners())
    unpacker = Unpacker({"/w": target}, limits=Limits(), owners=Owners())
    await (passed_on if str(archive) == "-" else stored)(packer, unpacker)
    restored = await unpacker.finish()
    await unpacker.abort()
    assert packer.result().sha256 == restored.sha256
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([restored.entries, restored.content, worker, own]))

asyncio.run(main())
"""


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory in memory where there is one: a disk would take minutes for so many files."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="boilerhouse-test-", dir=where) as path:
        yield Path(path)


def there_and_back(tmp_path: Path, *, kept: bool = True) -> tuple[int, int, int, int]:
    """Return entries, content, and the most memory that worker and caller had, in KiB.

    The archive is written to a file in between, unless it is not `kept`.
    """
    (tmp_path / "target").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ROUND, tmp_path / "source", tmp_path / "target",
         tmp_path / "archive" if kept else "-"], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    entries, content, worker, own = json.loads(done.stdout)
    return entries, content, worker, own


def test_eight_gigabytes_that_are_mostly_holes(tmp_path: Path) -> None:
    """Holes are neither read nor stored nor written."""
    source = tmp_path / "source"
    source.mkdir()
    places = [0, 3 << 30, (8 << 30) - 4096]
    with (source / "sparse").open("wb") as file:
        for place in places:
            file.seek(place)
            file.write(b"data at %d" % place)
        file.truncate(8 << 30)
    _, content, worker, _ = there_and_back(tmp_path)
    restored = tmp_path / "target/sparse"
    assert restored.stat().st_size == 8 << 30
    assert restored.stat().st_blocks <= (source / "sparse").stat().st_blocks
    with restored.open("rb") as file:
        for place in places:
            file.seek(place)
            assert file.read(20).rstrip(b"\0") == b"data at %d" % place
    assert content < MIB
    assert (tmp_path / "archive").stat().st_size < MIB
    assert worker < 32 << 10


def test_memory_does_not_grow_with_a_file(room: Path) -> None:
    """A file of 200 MiB passes through the same few pieces as one of three."""
    source = room / "source"
    source.mkdir()
    piece = os.urandom(MIB)
    with (source / "big").open("wb") as file:
        for number in range(200):
            file.write(piece[number * 997 :] + piece[: number * 997])
    _, content, worker, _ = there_and_back(room)
    assert content == 200 * MIB
    assert (source / "big").read_bytes() == (room / "target/big").read_bytes()
    assert worker < 32 << 10


def many(source: Path, files: int) -> None:
    for number in range(0, files, 1000):
        directory = source / f"{number // 50_000}/{number}"
        directory.mkdir(parents=True)
        for below in range(number, number + 1000):
            (directory / str(below)).write_bytes(b"%d" % below)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_thousand_small_files(room: Path) -> None:
    """All of them come back, in as much memory as a few would take."""
    many(room / "source", 200_000)
    entries, _, worker, _ = there_and_back(room)
    found = 0
    for file in (room / "target").rglob("*"):
        if file.is_file():
            assert file.read_bytes() == file.name.encode()
            found += 1
    assert found == 200_000
    assert entries == 200_205
    assert worker < 32 << 10


@pytest.mark.slow
def test_a_directory_of_fifty_thousand(room: Path) -> None:
    """A directory is taken in parts, so its length does not matter either."""
    source = room / "source"
    source.mkdir()
    (source / "0").write_bytes(b"")
    for number in range(1, 50_000):
        if number % 1000:
            os.link(source / str(number - number % 1000), source / str(number))
        else:
            (source / str(number)).write_bytes(b"")
    _, _, worker, _ = there_and_back(room)
    names = {path.name for path in (room / "target").iterdir()}
    assert names == {str(number) for number in range(50_000)}
    assert (room / "target/47001").samefile(room / "target/47999")
    assert worker < 40 << 10


@pytest.fixture
def space() -> Iterator[Path]:
    """A directory on the disk, for more than anybody wants to keep."""
    with tempfile.TemporaryDirectory(prefix="boilerhouse-test-") as path:
        if shutil.disk_usage(path).free < 20 << 30:
            absent(f"twice eight gigabytes do not fit into {path}")
        yield Path(path)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_eight_gigabytes_of_data(space: Path) -> None:
    """A file of real data, beyond what a tar header's own field can say."""
    source = space / "source"
    source.mkdir()
    piece = os.urandom(16 * MIB)
    with (source / "real").open("wb") as file:
        for number in range(513):
            file.write(b"%020d" % number + piece[20:])
    _, content, worker, _ = there_and_back(space, kept=False)
    assert content == 513 * 16 * MIB
    assert subprocess.run(["cmp", source / "real", space / "target/real"]).returncode == 0
    assert worker < 32 << 10
