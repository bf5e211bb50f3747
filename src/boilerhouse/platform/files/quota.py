"""Disk quotas as a Protocol: who sets them need not know which file system enforces them.

agent ─► Quota ◄─ kubelet (project quotas of the kernel)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """An amount of disk: bytes as the file system counts them, and inodes."""

    bytes: int
    inodes: int

    def at_least(self, used: DiskSpace, room: DiskSpace) -> Self:
        """Return this amount, or a higher one that leaves so much room beside what is used."""
        return replace(
            self,
            bytes=max(self.bytes, used.bytes + room.bytes),
            inodes=max(self.inodes, used.inodes + room.inodes),
        )


# What may be written on top of what is there: places for mounts in the layer of an image, without
# which its container could not start.
START_ROOM = DiskSpace(1 << 20, 32)


class Quota(Protocol):
    """What a file system counts and limits for some directories. Blocks; raises OSError."""

    def set(self, limit: DiskSpace | None) -> None:
        """Refuse what is written past a limit; None: refuse nothing."""
        ...

    def read(self) -> tuple[DiskSpace | None, DiskSpace]:
        """Return the limit, None without one, and what is used."""
        ...
