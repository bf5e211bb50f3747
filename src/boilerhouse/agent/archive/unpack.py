"""A gzip tar stream into overlays: what the worker does for a restore.

    Reader ─► Entries ─► Tree

Taken off: setuid and setgid of files. What is refused and what is left out says entries.py.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from boilerhouse.agent.archive.entries import Entries
from boilerhouse.agent.archive.failures import BadArchive, Failed
from boilerhouse.agent.archive.header import Member, shown
from boilerhouse.agent.archive.reader import Layout, Reader
from boilerhouse.agent.archive.source import Source
from boilerhouse.agent.archive.tree import Tree
from boilerhouse.agent.archive.walk import Root


class Unpack:
    """One archive on its way into overlays."""

    def __init__(self, source: Source, reader: Reader, roots: Sequence[Root], owners: bool) -> None:
        self._source = source
        self._reader = reader
        self._trees = {
            tuple(path.split(b"/")): Tree(root, owners, reader.imply) for path, root in roots
        }
        self._entries = Entries(source, reader, self._trees, self._fill)

    @property
    def skipped(self) -> list[str]:
        """Name what is in no overlay."""
        return self._entries.skipped

    def run(self) -> None:
        """Take everything, to the last byte."""
        place = self._entries.place
        try:
            while (found := self._reader.next()) is not None:
                try:
                    place(*found)
                except OSError as error:
                    raise _failed(found[0], error) from error
            self._reader.finish()
            for tree in self._trees.values():
                tree.close()
        finally:
            for tree in self._trees.values():
                tree.abandon()

    def _fill(self, file: int, layout: Layout) -> None:
        size, extents, _ = layout
        some = self._source.some
        for offset, length in extents:
            while length:
                piece = some(length)
                written = os.pwrite(file, piece, offset)
                while written < len(piece):  # a full disk says so with the next
                    written += os.pwrite(file, piece[written:], offset + written)
                offset += written
                length -= written
        if len(extents) != 1 or extents[0] != (0, size):
            os.ftruncate(file, size)


def _failed(member: Member, error: OSError) -> Exception:
    name = shown(member.name)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed("disk-full", f"{name} cannot be written: the disk is full")
    if error.errno == errno.EFBIG:
        return BadArchive("too-large", f"{name} is larger than a file can be here")
    if error.errno == errno.EMFILE:
        return BadArchive("too-deep", f"{name} lies deeper than files may be open at once")
    return Failed("io-error", f"{name} cannot be written: {error.strerror}")
