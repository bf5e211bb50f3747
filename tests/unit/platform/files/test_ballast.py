"""Disk space that is kept back, and given up."""

from __future__ import annotations

import os
from pathlib import Path

from boilerhouse.platform.files.ballast import LARGEST, PIECES, SHARE, SMALLEST, Ballast

MEBI = 1 << 20


def kept(ballast: Ballast) -> int:
    """Return what the reserve takes on the disk."""
    if not ballast.directory.exists():
        return 0
    return sum(path.lstat().st_blocks * 512 for path in ballast.directory.iterdir())


def opened(data: Path, size: int | None = 8 * MEBI) -> Ballast:
    ballast = Ballast(data, size)
    ballast.open()
    return ballast


def test_what_is_kept_back_is_really_taken(tmp_path: Path) -> None:
    """The reserve is allocated, not only as long as it says; each piece is an inode."""
    ballast = opened(tmp_path)
    assert ballast.missing == PIECES
    ballast.fill(8 * MEBI)
    assert ballast.missing == 0
    assert kept(ballast) == ballast.size == 8 * MEBI
    assert len(list(ballast.directory.iterdir())) == PIECES


def test_pieces_are_given_up_one_by_one_and_made_again(tmp_path: Path) -> None:
    """Each makes its room at once; filled only as far as told."""
    ballast = opened(tmp_path)
    ballast.fill(8 * MEBI)
    assert ballast.give_up() and ballast.give_up()
    assert kept(ballast) == 8 * MEBI - 2 * ballast.piece
    ballast.fill(ballast.piece)
    assert ballast.missing == 1
    ballast.remove()
    assert not ballast.give_up()
    assert not ballast.directory.exists()


def test_the_reserve_of_an_earlier_life_counts(tmp_path: Path) -> None:
    """What is whole is taken over; what a crash left half made, or is of another size, is not."""
    before = opened(tmp_path)
    before.fill(8 * MEBI)
    (before.directory / "00").write_bytes(b"short")
    os.truncate(before.directory / "01", 0)
    os.truncate(before.directory / "01", before.piece)  # as long as it should be, and not there
    (before.directory / "stranger").touch()
    (before.directory / "63").unlink()
    (before.directory / "strangers").mkdir()
    after = opened(tmp_path)
    assert after.missing == 3
    (before.directory / "strangers").rmdir()
    after.fill(8 * MEBI)
    assert kept(after) == 8 * MEBI
    assert {path.name for path in after.directory.iterdir()} == {f"{n:02}" for n in range(PIECES)}
    assert opened(tmp_path, 4 * MEBI).missing == PIECES


def test_a_share_of_the_disk_is_kept_unless_told(tmp_path: Path) -> None:
    """Of a small disk a fraction, of a large one no more than is of use; nothing if so told."""
    disk = os.statvfs(tmp_path)
    most = min(LARGEST, disk.f_blocks * disk.f_frsize // SHARE)
    assert most - PIECES * 4096 <= opened(tmp_path, None).size <= most
    for nothing in (0, SMALLEST - 1):
        ballast = opened(tmp_path, nothing)
        ballast.fill(1 << 40)
        assert (ballast.size, ballast.missing, ballast.directory.exists()) == (0, 0, False)


def test_there_is_no_room_to_make_while_there_is_room(tmp_path: Path) -> None:
    """A write that failed for another reason costs nothing of the reserve."""
    ballast = Ballast(tmp_path, 8 * MEBI)
    ballast.open()
    ballast.fill(8 * MEBI)
    assert not ballast.make_room()
    assert ballast.missing == 0
