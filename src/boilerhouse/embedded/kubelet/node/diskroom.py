"""How much room a disk has, and whether that is too little: pure, but for one look at the disk.

statvfs ─► Room ─► Marks.pressed(room, before) ─► the Node's DiskPressure

What is missing from the reserve counts as used: the pressure ends only when there is room for all
of it, and giving some of it up does not look like room.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# Below this many reserves of free bytes there is pressure; it ends at a fifth more.
RESERVES = 2
# Below this share of all inodes, and at most below this number.
INODE_SHARE = 20
INODES = 20_000


@dataclass(frozen=True, slots=True)
class Room:
    """What is free for everybody: of bytes, and of inodes (None where they are not counted)."""

    bytes: int
    inodes: int | None

    def without(self, size: int, inodes: int) -> Room:
        """Return what would be left if this much more were used."""
        left = None if self.inodes is None else self.inodes - inodes
        return Room(self.bytes - size, left)


@dataclass(frozen=True, slots=True)
class Marks:
    """Where pressure begins."""

    bytes: int
    inodes: int

    def pressed(self, room: Room, *, before: bool) -> bool:
        """Whether there is too little room; what was too little `before` needs a fifth more."""
        return bool(self.lacking(room, before=before))

    def lacking(self, room: Room, *, before: bool) -> list[str]:
        """Say what there is too little of."""
        more = 6 if before else 5
        lacking = []
        if room.bytes * 5 < self.bytes * more:
            lacking.append("space")
        if room.inodes is not None and room.inodes * 5 < self.inodes * more:
            lacking.append("inodes")
        return lacking


def look(path: Path) -> Room:
    """Return the room of the file system of a path. Blocks."""
    disk = os.statvfs(path)
    return Room(disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else None)


def marks_for(path: Path, reserve: int) -> Marks:
    """Return the marks for a file system and a reserve in bytes; without one there is never any."""
    if not reserve:
        return Marks(0, 0)
    return Marks(RESERVES * reserve, min(INODES, os.statvfs(path).f_files // INODE_SHARE))
