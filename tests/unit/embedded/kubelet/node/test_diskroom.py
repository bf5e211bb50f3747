"""When a disk has too little room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.node.diskpressure import DiskPressure
from boilerhouse.embedded.kubelet.node.diskroom import Marks, Room, look, marks_for
from boilerhouse.platform.files.ballast import Ballast

MARKS = Marks(1000, 100)


@pytest.mark.parametrize(
    ("room", "before", "lacking"),
    [
        (Room(1000, 100), False, []),
        (Room(999, 100), False, ["space"]),
        (Room(1000, 99), False, ["inodes"]),
        (Room(-5, 0), False, ["space", "inodes"]),
        (Room(1199, 120), True, ["space"]),
        (Room(1200, 119), True, ["inodes"]),
        (Room(1200, 120), True, []),
        (Room(1200, None), True, []),
    ],
)
def test_pressure_begins_at_a_mark_and_ends_above_it(
    room: Room, before: bool, lacking: list[str]
) -> None:
    """It takes a fifth more to end than to begin: nothing flaps. Uncounted inodes never lack."""
    assert MARKS.lacking(room, before=before) == lacking
    assert MARKS.pressed(room, before=before) == bool(lacking)


def test_without_a_reserve_there_is_no_pressure(tmp_path: Path) -> None:
    """Whoever keeps nothing back is not told to."""
    assert marks_for(tmp_path, 0) == Marks(0, 0)
    assert not marks_for(tmp_path, 0).pressed(Room(0, 0), before=True)
    assert marks_for(tmp_path, 1 << 20).bytes == 2 << 20


def test_what_is_missing_of_the_reserve_counts_as_used(tmp_path: Path) -> None:
    """So that giving it up does not look like room."""
    assert Room(1000, 100).without(300, 3) == Room(700, 97)
    assert Room(1000, None).without(300, 3) == Room(700, None)
    assert look(tmp_path).bytes > 0


def test_a_disk_that_cannot_be_looked_at_is_looked_at_again(tmp_path: Path) -> None:
    """Nothing ends by it, and what was known stays known."""

    async def seen() -> None:
        disk = DiskPressure(tmp_path / "data", Ballast(tmp_path / "data", 1 << 20))
        (tmp_path / "data").mkdir()
        await disk.open()
        (tmp_path / "data").rename(tmp_path / "gone")
        await disk.look()
        await disk.look()
        (tmp_path / "gone").rename(tmp_path / "data")
        await disk.look()
        assert not disk.pressed
        await disk.close()
        assert not (tmp_path / "data" / "reserve").exists()

    asyncio.run(seen())
