"""The members of an archive, one after the other, and the limits on them.

    Source ─► Reader ─► Member, where its content has its data

Whatever is said in a header is counted against the limits before it is acted upon. Names come out
as lists of components that can do no harm: relative, no `..`, none longer than a file system's.
"""

from __future__ import annotations

from boilerhouse.agent.archive import header, sparse
from boilerhouse.agent.archive.failures import BadArchive
from boilerhouse.agent.archive.header import BLOCK, RECORDS, Member, shown
from boilerhouse.agent.archive.source import Source

_HEADERS = 8  # before one entry, its own included
_TRAILER = 1 << 20  # zeros behind the end: tapes have blocks
_ZEROS = bytes(BLOCK)
_NO_NAMES = (b"", b".", b"..")

Parts = list[bytes]
# Size of the file, and where its data goes; how much data there is.
Layout = tuple[int, list[sparse.Extent], int]


class Reader:
    """Reads headers from a source; who asks for the next must have taken the content."""

    def __init__(self, source: Source, entries: int, content: int, name: int) -> None:
        self._source = source
        self._most_entries = entries
        self._most_content = content
        self._longest = name
        self._implied = 0
        self._usual = min(name, 255)
        self._above: tuple[bytes, Parts] = b"", []
        self.entries = 0
        self.content = 0

    def next(self) -> tuple[Member, Parts, Layout] | None:
        """Return a member, its name's components and its content's layout; None at the end."""
        usual = self._source.usual()
        if usual is not None:
            return self._counted(usual), self.parts(usual.name), _plain(usual.size)
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
        member = self._counted(header.decode(block, records))
        if member.kind == header.OLD_SPARSE or sparse.told(records):
            layout = sparse.read(member, block, self._source.take)
            member.kind = header.FILE
        else:
            layout = _plain(member.size)
        return member, self.parts(member.name), layout

    def _counted(self, member: Member) -> Member:
        self.entries += 1
        self.content += member.size
        if self.entries + self._implied > self._most_entries:
            raise self._too_many()
        if self.content > self._most_content:
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

    def parts(self, name: bytes) -> Parts:
        """Take a name apart; raises where it is not one that may be in an archive."""
        above, _, last = name.rpartition(b"/")
        usual = above and last not in _NO_NAMES and len(name) <= self._usual
        if usual and above == self._above[0]:  # in the same directory as the one before
            return [*self._above[1], last]
        parts = self._parts(name)
        if usual:
            self._above = above, parts[:-1]
        return parts

    def _parts(self, name: bytes) -> Parts:
        if len(name) > self._longest:
            raise BadArchive("name-too-long", f"{shown(name)} has over {self._longest} bytes")
        if name.startswith(b"/"):
            raise BadArchive("absolute-name", f"{shown(name)} is absolute")
        parts = name.split(b"/")
        if b"" in parts or b"." in parts:
            parts = [part for part in parts if part and part != b"."]
        if b".." in parts:
            raise BadArchive("parent-name", f"{shown(name)} has .. in it")
        if len(name) > 255 and max(map(len, parts)) > 255:
            raise BadArchive("name-too-long", f"{shown(name)} has a part over 255 bytes")
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
