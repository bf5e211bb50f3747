"""Trees of any depth that may be saved come back; deeper ones are refused with the path."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boilerhouse.platform.archive import tally, walk
from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.header import LEVELS
from boilerhouse.platform.archive.model import UNLIMITED
from tests.deep import bottom, dig, read, somewhere, write
from tests.unit.platform.archive.archive_fixture import clear, look, pack, unpack
from tests.unit.platform.archive.test_large_trees import ROUND

pytestmark = pytest.mark.processes


@pytest.fixture
def room() -> Iterator[Path]:
    with somewhere() as path:
        (path / "source").mkdir()
        (path / "target").mkdir()
        yield path


def there_and_back(room: Path) -> bytes:
    """Save and restore with little memory and few descriptors; returns the archive."""
    source, target = {"/w": room / "source"}, {"/w": room / "target"}
    before = look(source)
    archive, packed = pack(source, deep=before.deep)
    assert packed.fingerprint == before
    restored = unpack(archive, target, UNLIMITED)
    assert (restored.entries, restored.content) == (packed.entries, packed.content)
    assert look(target).entries == packed.entries
    return archive


@pytest.mark.parametrize(("levels", "name"), [(2_000, "d"), (130, "n" * 200)], ids=["deep", "long"])
def test_nested_directories(room: Path, levels: int, name: str) -> None:
    """What lies in them, their modes and times come back; GNU tar lists the archive."""
    dig(room / "source", levels, name)
    with bottom(room / "source", levels // 2, name) as half:
        write(half, "file", b"in the middle")
        os.symlink("/nowhere", "link", dir_fd=half)
        os.link("file", "other", src_dir_fd=half, dst_dir_fd=half)
        os.fchmod(half, 0o751)
        os.mkdir("a", dir_fd=half)
        os.mkdir("z", dir_fd=half)
        os.utime(half, ns=(1, 10**18))
    archive = there_and_back(room)
    with bottom(room / "target", levels // 2, name) as half:
        assert read(half, "other") == b"in the middle"
        assert os.readlink("link", dir_fd=half) == "/nowhere"
        assert sorted(entry.name for entry in os.scandir(half)) == sorted(
            ["a", "file", "link", "other", "z", name]
        )
        found = os.fstat(half)
        assert (found.st_mode & 0o7777, found.st_mtime_ns) == (0o751, 10**18)
    with bottom(room / "target", levels, name) as last:
        assert read(last, "end") == b"precious"
    listed = subprocess.run(["tar", "tzf", "-"], input=archive, capture_output=True, check=True)
    names = listed.stdout.splitlines()
    assert len(names) == levels + 7
    assert b"w/" + b"/".join([name.encode()] * levels) + b"/end" in names
    clear({"/w": room / "target"})
    assert list((room / "target").iterdir()) == []


def test_every_change_in_the_depth_is_seen(room: Path) -> None:
    """The fingerprint is of everything, however deep it lies."""
    dig(room / "source", 300)
    overlays = {"/w": room / "source"}
    seen = {look(overlays).digest}
    assert look(overlays).digest in seen
    with bottom(room / "source", 300) as last:
        changes: list[Callable[[], object]] = [
            lambda: write(last, "new", b"x"),
            lambda: os.rename("new", "newer", src_dir_fd=last, dst_dir_fd=last),
            lambda: os.mkdir("d", dir_fd=last),
            lambda: os.rename("d", "e", src_dir_fd=last, dst_dir_fd=last),
            lambda: os.unlink("newer", dir_fd=last),
        ]
        for change in changes:
            change()
            digest = look(overlays).digest
            assert digest not in seen
            seen.add(digest)


def test_few_descriptors_do(room: Path) -> None:
    """Neither saving nor restoring has a descriptor open for each level."""
    dig(room / "source", 1_000)
    script = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\n" + ROUND
    done = subprocess.run(
        [sys.executable, "-c", script, room / "source", room / "target", room / "archive"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with bottom(room / "target", 1_000) as last:
        assert read(last, "end") == b"precious"


def test_too_deep_to_be_saved(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One level more than may be ends the save with the path; all can still be removed."""
    monkeypatch.setattr(tally, "LEVELS", 1_000)
    monkeypatch.setattr(walk, "LEVELS", 1_000)
    dig(room / "source", 1_001)
    said = r"too-deep: 'w/d/d/.*….*d/d/d' lies more than 1000 directories deep"
    root = os.open(room / "source", walk.OPEN_DIRECTORY)
    try:
        with pytest.raises(Failed, match=said) as failed:
            tally.fingerprint([(b"w", root)])
        assert len(str(failed.value)) < 400
        with pytest.raises(Failed, match=said):
            list(walk.walk([(b"w", root)]))
    finally:
        os.close(root)
    clear({"/w": room / "source"})
    assert list((room / "source").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_as_deep_as_may_be(room: Path) -> None:
    """25,000 levels are saved and restored, in bounded memory."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of other tests' processes
    dig(room / "source", LEVELS)
    there_and_back(room)
    with bottom(room / "target", LEVELS) as last:
        assert read(last, "end") == b"precious"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < max(largest + 1, 200 << 10)
