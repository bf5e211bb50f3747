"""The values that go in and out of an archive job."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the overlays were at one moment: equal ones mean that nothing was changed between.

    The digest is over path, inode, size, mode, owner, mtime and ctime of every entry. ctime is the
    kernel's own, so nobody can put an old one back.
    """

    digest: str
    entries: int
    bytes: int
    deep: bool = field(default=False, compare=False)  # some directories lie very deep


@dataclass(frozen=True, slots=True)
class Owners:
    """How user and group ids outside the instance become those inside, and back.

    Without `outside` ids are kept as they are (a real node). With it, everything belongs to that
    one (uid, gid) outside and is written down as `inside`, whatever it was.
    """

    outside: tuple[int, int] | None = None
    inside: tuple[int, int] = (1000, 1000)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive of others may hold; counted in the stream, before anything is made of it.

    They hold for uploads. A tenant's own files are saved whatever their size and number, and
    restored into whatever the workload has become meanwhile: `UNLIMITED`. A restore needs no limits
    of its own, since whatever is stored was saved by ourselves or judged when it came in.
    """

    entries: int = 2_000_000
    content: int = 64 << 30  # bytes of files as they are in the archive: holes cost nothing

    @classmethod
    def of_disk(cls, gb: int) -> Limits:
        """Return the limits of uploads for a workload with so many GiB of disk; 0: not known."""
        return cls(content=2 * gb << 30) if gb else cls()

    def told(self, why: str) -> str:
        """Return why something is too large, with the limits that it is measured by."""
        room = f"{self.content / (1 << 30):g} GiB in files, twice the workload's diskGb"
        return f"{why}; the limits are {self.entries} entries and {room}"


UNLIMITED = Limits(entries=1 << 62, content=1 << 62)


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive that was written or read to its end.

    `fingerprint` is of the overlays afterwards. `skipped` names what is not in the archive
    (sockets, devices) or was not restored (no such overlay any more), with the reason; at most a
    hundred are named.
    """

    sha256: str
    size: int
    entries: int
    content: int
    fingerprint: Fingerprint
    skipped: tuple[str, ...] = ()
