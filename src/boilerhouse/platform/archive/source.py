"""The bytes of an archive as they are needed: read, hashed, inflated, never much at once.

    in ─► Inflater (sha256, isal) ─► Source.take, Source.some ─► Reader

A gzip of a megabyte can hold gigabytes: it is inflated in pieces, and no further than is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from mmap import mmap

from isal import igzip_lib

from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.header import Member, decode_usual

_PIECE = 64 << 10  # what a processor keeps close by: larger ones take half as long again
_MAGIC = b"\x1f\x8b"


class Inflater:
    """Makes a gzip stream plain. `read()` returns its next bytes, none at the end."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._sha256 = sha256()
        self._gzip: igzip_lib.IgzipDecompressor | None = None
        self._compressed = b""
        self._begun = False
        self.size = 0

    def digest(self) -> str:
        """Return the digest of all that was read."""
        return self._sha256.hexdigest()

    def piece(self) -> bytes:
        """Return some bytes; none where the stream ends as it should."""
        while True:
            if self._gzip is None and not self._begin():
                return b""
            assert self._gzip is not None
            if self._gzip.needs_input and not self._compressed:
                self._compressed = self._more()
                if not self._compressed:
                    raise BadArchive("truncated", "the gzip stream ends in the middle")
            given, self._compressed = self._compressed, b""
            try:
                piece = self._gzip.decompress(given, _PIECE)
            except igzip_lib.error as error:  # type: ignore[misc]  # its stub says: an instance
                raise BadArchive("bad-gzip", f"the gzip stream is broken: {error}") from None
            if self._gzip.eof:
                self._compressed = self._gzip.unused_data
                self._gzip = None
            if piece:
                return piece

    def _begin(self) -> bool:
        """Start the next gzip stream: most archives are one, some are several in a row."""
        while len(self._compressed) < len(_MAGIC):
            more = self._more()
            if not more:
                break
            self._compressed += more
        if not self._compressed and self.size:
            return False
        if self._begun and self._compressed.startswith(b"\0"):
            self._skip_padding()
            return False
        if not self._compressed.startswith(_MAGIC):
            raise BadArchive("bad-gzip", "it is not compressed by gzip")
        self._gzip = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
        self._begun = True
        return True

    def _skip_padding(self) -> None:
        """Take the zeros behind the last stream, as gzip does; nothing else may follow them."""
        while self._compressed:
            if self._compressed.strip(b"\0"):
                raise BadArchive("trailing-data", "there is something behind the gzip stream")
            self._compressed = self._more()

    def _more(self) -> bytes:
        piece = self._read()
        self._sha256.update(piece)
        self.size += len(piece)
        return piece


class Source:
    """A stream to be taken from, bit by bit. `pull()` returns some of it, nothing at the end."""

    def __init__(self, pull: Callable[[], bytes]) -> None:
        self._pull = pull
        self._held = b""
        self._at = 0

    def take(self, length: int) -> bytes:
        """Return the next bytes, exactly that many."""
        end = self._at + length
        if end > len(self._held):
            self._hold(length)
            end = self._at + length
        taken = self._held[self._at : end]
        self._at = end
        return taken

    def usual(self) -> Member | None:
        """Take a member's headers, if they are the usual ones and all here."""
        found = decode_usual(self._held, self._at)
        if found is None:
            return None
        member, length = found
        self._at += length
        return member

    def some(self, most: int) -> memoryview:
        """Return at least one of the next bytes, without copying them."""
        if self._at == len(self._held):
            self._hold(1)
        taken = memoryview(self._held)[self._at : self._at + most]
        self._at += len(taken)
        return taken

    def copy(self, into: mmap, at: int, length: int) -> None:
        """Put the next bytes somewhere else, exactly that many."""
        while length:
            piece = self.some(length)
            into[at : at + len(piece)] = piece
            at += len(piece)
            length -= len(piece)

    def skip(self, length: int) -> None:
        if self._at + length <= len(self._held):
            self._at += length
            return
        while length:
            length -= len(self.some(length))

    def end(self, most: int) -> None:
        """Read to the end, where at most so many zeros may stand."""
        while piece := self._held[self._at :] or self._pull():
            most -= len(piece)
            if most < 0 or piece.count(0) != len(piece):
                raise BadArchive("trailing-data", "something stands behind the archive's end")
            self._held, self._at = b"", 0

    def _hold(self, length: int) -> None:
        parts = [self._held[self._at :]]
        missing = length - len(parts[0])
        while missing > 0:
            piece = self._pull()
            if not piece:
                raise BadArchive("truncated", "the archive ends in the middle")
            parts.append(piece)
            missing -= len(piece)
        self._held, self._at = b"".join(parts), 0
