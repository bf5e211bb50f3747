"""The members of an archive, one after the other, and the limits on them.

    Source ─► Reader ─► Member, where its content has its data

Whatever is said in a header is counted against the limits before it is acted upon. Names come out
as lists of components that can do no harm: relative, no `..`, none longer than a file system's.
"""

from __future__ import annotations

from boilerhouse.platform.archive import header, sparse
from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.header import (
    BLOCK,
    LEVELS,
    PATH_BYTES_LIMIT,
    RECORDS,
    Member,
    shown,
)
from boilerhouse.platform.archive.source import Source

_HEADERS = 8  # before one entry, its own included
_TRAILER = 1 << 20  # zeros behind the end: tapes have blocks
_ZEROS = bytes(BLOCK)
_NO_NAMES = (b"", b".", b"..")
_COMPONENT = 255  # bytes of one name in a directory
_LONG = 4095  # bytes of a path, as long as the kernel takes one
_MOST_PARTS = LEVELS + 64  # components of a path; an overlay's own directory has a few

Parts = list[bytes]
# Size of the file, and where its data goes; how much data there is.
Layout = tuple[int, list[sparse.Extent], int]


class Reader:
    """Reads headers from a source; who asks for the next must have taken the content."""

    def __init__(self, source: Source, entries: int, content: int) -> None:
        self._source = source
        self._most_entries = entries
        self._most_content = content
        self._implied = 0
        self._names = 0  # bytes of very long names, which count as content
        # A directory whose name was taken apart, and its components: most entries are in the same
        # one as the entry before, or in that entry.
        self._above: tuple[bytes, Parts] = b"", []
        self.entries = 0
        self.content = 0

    def next(self) -> tuple[Member, Parts, Layout] | None:
        """Return a member, its name's components and its content's layout; None at the end."""
        usual = self._source.usual()
        if usual is not None:
            parts = self.parts(usual.name, usual.kind == header.DIRECTORY)
            return self._counted(usual), parts, _plain(usual.size)
        records: dict[bytes, bytes] = {}
        for _ in range(_HEADERS):
            block = self._source.take(BLOCK)
            if block == _ZEROS:
                if records:
                    raise BadArchive("bad-header", "a header without an entry stands at the end")
                return None
            header.check(block)
            kind = block[156:157]
            if kind == header.PAX:
                records.update(header.pax(self._small(block)))
            elif kind == header.PAX_GLOBAL:
                self._global(block)
            elif kind == header.LONG_NAME:
                records[b"path"] = self._small(block).partition(b"\0")[0]
            elif kind == header.LONG_LINK:
                records[b"linkpath"] = self._small(block).partition(b"\0")[0]
            else:
                return self._member(block, records)
        raise BadArchive("too-large", f"there are more than {_HEADERS} headers before one entry")

    def _member(self, block: bytes, records: dict[bytes, bytes]) -> tuple[Member, Parts, Layout]:
        member = header.decode(block, records)
        if len(member.name) > _LONG or len(member.link) > _LONG:
            self._names += len(member.name) + len(member.link)
        self._counted(member)
        if member.kind == header.OLD_SPARSE or sparse.told(records):
            layout = sparse.read(member, block, self._source.take)
            member.kind = header.FILE
        else:
            layout = _plain(member.size)
        return member, self.parts(member.name, member.kind == header.DIRECTORY), layout

    def _counted(self, member: Member) -> Member:
        self.entries += 1
        self.content += member.size
        if self.entries + self._implied > self._most_entries:
            raise self._too_many()
        if self.content + self._names > self._most_content:
            raise BadArchive(
                "too-large", f"with {shown(member.name)} it has over {self._most_content} bytes"
            )
        return member

    def imply(self) -> None:
        """Count a directory that an entry lies in and that has none of its own.

        A name of four kilobytes can be two thousand directories.
        """
        self._implied += 1
        if self.entries + self._implied > self._most_entries:
            raise self._too_many()

    def _too_many(self) -> BadArchive:
        return BadArchive("too-large", f"there are more than {self._most_entries} entries")

    def parts(self, name: bytes, directory: bool = False) -> Parts:
        """Take a name apart; raises where it is not one that may be in an archive."""
        if directory:
            name = name.removesuffix(b"/")
        above, _, last = name.rpartition(b"/")
        if last in _NO_NAMES or not above:
            return self._parts(name)
        known, parts = self._above
        if above == known and len(last) <= _COMPONENT and len(parts) < _MOST_PARTS:
            parts = [*parts, last]
        else:
            parts = self._parts(name)
            self._above = above, parts[:-1]
        if directory:
            self._above = name, parts
        return parts

    def _parts(self, name: bytes) -> Parts:
        if len(name) > PATH_BYTES_LIMIT:
            raise BadArchive("name-too-long", f"{shown(name)} has over {PATH_BYTES_LIMIT} bytes")
        if name.startswith(b"/"):
            raise BadArchive("absolute-name", f"{shown(name)} is absolute")
        if name.count(b"/") >= _MOST_PARTS:
            raise BadArchive("too-deep", f"{shown(name)} lies more than {LEVELS} directories deep")
        parts = name.split(b"/")
        if b"" in parts or b"." in parts:
            parts = [part for part in parts if part and part != b"."]
        if b".." in parts:
            raise BadArchive("parent-name", f"{shown(name)} has .. in it")
        if len(name) > _COMPONENT and max(map(len, parts), default=0) > _COMPONENT:
            raise BadArchive("name-too-long", f"{shown(name)} has a part over {_COMPONENT} bytes")
        return parts

    def _global(self, block: bytes) -> None:
        """Let a comment pass, as `git archive` writes one; the rest would change every entry."""
        if header.pax(self._small(block)):
            raise BadArchive("bad-header", "a pax header for all entries is not supported")

    def _small(self, block: bytes) -> bytes:
        size = header.number(block[124:136])
        if not 0 <= size <= RECORDS:
            raise BadArchive("too-large", f"a header of {size} bytes")
        content = self._source.take(size)
        self._source.skip(-size % BLOCK)
        return content

    def finish(self) -> None:
        """Read what stands behind the end: nothing much."""
        self._source.end(_TRAILER)


def _plain(size: int) -> Layout:
    return size, [(0, size)] if size else [], size
