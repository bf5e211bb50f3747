"""Every entry of a tree is seen once, whatever its depth and width, by few descriptors."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from boilerhouse.platform.files import treewalk
from boilerhouse.platform.files.counting import Count
from boilerhouse.platform.files.descent import OPEN_DIRECTORY
from boilerhouse.platform.files.removal import remove_below
from boilerhouse.platform.files.treewalk import Walk
from tests.deep import bottom, dig, somewhere, write
from tests.unit.node.agent.agent_fixture import open_descriptors

pytestmark = pytest.mark.processes


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory for trees that are too deep for pytest's own removal."""
    with somewhere() as path:
        yield path


def refuse(_directory: int, _name: str | None, error: OSError) -> None:
    raise error


def seen(path: Path) -> list[tuple[str, bool]]:
    """Return every path that a walk finds, and whether it is a directory."""
    top = os.open(path, OPEN_DIRECTORY)
    found = []
    try:
        walk = Walk(top, refuse)
        for depth, entry, directory, is_directory in walk:
            assert depth == len(walk.names)
            if entry is None:
                continue
            assert os.path.samestat(
                os.fstat(directory) if is_directory else entry.stat(follow_symlinks=False),
                entry.stat(follow_symlinks=False)
                if not is_directory
                else os.stat(f"../{entry.name}", dir_fd=directory),
            )
            above = walk.names[:-1] if is_directory else walk.names
            found.append(("/".join([*above, entry.name]), is_directory))
    finally:
        os.close(top)
    return found


def expected(path: Path) -> list[tuple[str, bool]]:
    return [
        (str(below.relative_to(path)), below.is_dir() and not below.is_symlink())
        for below in path.rglob("*")
    ]


def grow(path: Path, rng: random.Random, levels: int) -> None:
    """Make a tree with a long trunk, and branches and files on every level."""
    here = path
    for _ in range(levels):
        for number in range(rng.randrange(12)):
            (here / f"f{number}").touch()
        for number in range(rng.randrange(4)):
            (here / f"b{number}" / "x").mkdir(parents=True)
            (here / f"b{number}" / "link").symlink_to("/")
        here = here / rng.choice("aez")
        here.mkdir()


@pytest.mark.parametrize("small", [False, True], ids=["as it is", "little memory"])
def test_everything_is_seen_once(room: Path, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only a few names may be held, so that directories are read several times."""
    if small:
        monkeypatch.setattr(treewalk, "BATCH", 3)
        monkeypatch.setattr(treewalk, "_HELD", 20)
    grow(room, random.Random(3), 150)
    before = open_descriptors()
    found = seen(room)
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(expected(room))
    assert open_descriptors() <= before


def test_few_descriptors(room: Path) -> None:
    """However deep it goes, a bounded number of directories is open."""
    dig(room, 5_000)
    top = os.open(room, OPEN_DIRECTORY)
    before = most = open_descriptors()
    for _ in Walk(top, refuse):
        most = max(most, open_descriptors())
    assert most - before <= 130
    assert open_descriptors() <= before
    os.close(top)


def test_what_was_moved_away_is_not_followed(room: Path) -> None:
    """A walk that cannot go back the way it came says so, and ends inside of its tree."""
    inside, outside = room / "inside", room / "outside"
    dig(inside, 200)
    outside.mkdir()
    (outside / "secret").touch()
    missed: list[OSError] = []
    top = os.open(inside, OPEN_DIRECTORY)
    names = []
    for depth, entry, _, _ in Walk(top, lambda _a, _b, error: missed.append(error)):
        names.append(entry.name if entry is not None else "")
        if depth == 200 and entry is not None and entry.name == "end":
            with bottom(inside, 99) as above, bottom(outside, 0) as away:
                os.rename("d", "moved", src_dir_fd=above, dst_dir_fd=away)
    os.close(top)
    assert names.count("end") == 1
    assert "secret" not in names
    assert [error.strerror for error in missed] == ["it was moved while it was looked through"]


def test_a_count_is_taken_up_again(room: Path) -> None:
    """Interrupted after every look at the time, it comes to the same."""
    for number in range(20):
        (room / str(number)).mkdir()
        for below in range(100):
            (room / str(number) / str(below)).write_bytes(bytes(below))
    top = os.open(room, OPEN_DIRECTORY)
    whole, parts = Count(top), Count(top)
    os.close(top)
    assert whole.advance()
    looks = 0
    while not parts.advance(lambda: False):
        assert not parts.finished
        looks += 1
    assert looks >= 7
    assert (parts.used, parts.inodes, parts.entries) == (whole.used, whole.inodes, whole.entries)
    assert (whole.inodes, whole.entries) == (2021, 2020)


def test_names_of_any_length(room: Path) -> None:
    """130 levels of 200 characters make a path that the kernel takes for none."""
    dig(room, 130, "n" * 200, bytes(1 << 20))
    top = os.open(room, OPEN_DIRECTORY)
    count = Count(top)
    assert count.advance()
    assert count.complete
    assert count.inodes == 132
    assert count.used >= 1 << 20
    remove_below(top)
    os.close(top)
    assert list(room.iterdir()) == []


def test_branches_in_the_depth(room: Path) -> None:
    """Where a tree is wide far down, it is removed and counted as well."""
    room.joinpath("t").mkdir()
    with bottom(room / "t", 300, make=True) as last:
        for number in range(300):
            os.mkdir(str(number), dir_fd=last)
            below = os.open(str(number), OPEN_DIRECTORY, dir_fd=last)
            write(below, "file", b"x")
            os.mkdir("closed", 0, dir_fd=below)
            os.close(below)
    top = os.open(room, OPEN_DIRECTORY)
    count = Count(top)
    count.advance()
    assert count.inodes == 1 + 1 + 300 + 3 * 300
    remove_below(top)
    os.close(top)
    assert list(room.iterdir()) == []
