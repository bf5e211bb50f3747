"""How much disk an instance may use, and whether it has used it up. Pure.

diskGb ─► DiskLimit ─► shortage(counted use) ─► "disk", "files", or nothing

While the machine's own disk is nearly full, an instance may grow by a little and no more: then its
limit is what it used when that began, and that little.

An instance is frozen at its limit and runs again below 95 % of it, so that one that hovers at the
limit is not frozen and thawed all the time. One that a quota stops instead (quota.py) is told of
from 99 % on: the last block that it asked for was refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from boilerhouse.platform.files.quota import DiskSpace

INODES_PER_GIB = 65_536  # what mkfs.ext4 makes: one for each 16 KiB
THAW_BELOW = 0.95  # of the limit
REACHED = 0.99  # of a quota
SLACK = 0.05  # of the limit: what commands in a frozen instance may add


class Shortage(StrEnum):
    """What of its disk an instance has used up. The words are on the wire (`Usage.full`).

    It is frozen for each of them but QUOTA: then it runs, and its writes are refused.
    """

    NONE = ""
    BYTES = "disk"
    INODES = "files"
    MACHINE = "machine"  # not its own disk is full but the machine's, and it writes on
    QUOTA = "quota"

    @classmethod
    def freezes(cls, full: str | None) -> bool:
        """Whether an instance of which this was told is frozen."""
        return bool(full) and full != cls.QUOTA


@dataclass(frozen=True, slots=True)
class DiskLimit(DiskSpace):
    """What an instance may use."""

    @classmethod
    def of_gb(cls, gb: int) -> DiskLimit:
        """Return the limit of a workload with so many GiB of disk."""
        return cls(gb << 30, gb * INODES_PER_GIB)

    def shortage(self, used: int, inodes: int, *, frozen: bool) -> Shortage:
        """Say what is used up; of a frozen instance, whether it has to stay so."""
        share = THAW_BELOW if frozen else 1.0
        if used >= self.bytes * share:
            return Shortage.BYTES
        if inodes >= self.inodes * share:
            return Shortage.INODES
        return Shortage.NONE

    def reached(self, used: int, inodes: int, *, before: bool) -> bool:
        """Say whether this, as a quota, is used up; and if it was before, whether it still is."""
        return self.share(used, inodes) >= (THAW_BELOW if before else REACHED)

    def is_exceeded(self, used: int, inodes: int) -> bool:
        """Whether there is a limit, and an instance that runs uses it up."""
        return self.bytes > 0 and bool(self.shortage(used, inodes, frozen=False))

    def at_most(self, used: int, inodes: int, growth: DiskLimit) -> DiskLimit:
        """Return this limit, or a lower one: of an instance that may grow by so much more."""
        return DiskLimit(
            min(self.bytes, used + growth.bytes), min(self.inodes, inodes + growth.inodes)
        )

    def share(self, used: int, inodes: int) -> float:
        """Return how much of the limit is used: of bytes or inodes, whichever is more."""
        return max(used / self.bytes, inodes / self.inodes)
