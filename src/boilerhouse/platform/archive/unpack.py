"""A gzip tar stream into overlays: what the worker does for a restore.

    Reader ─► Entries ─► Tree ─► ParallelWriter

Taken off: setuid and setgid of files. What is refused and what is left out says entries.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from boilerhouse.platform.archive.entries import Entries, not_written
from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.parallel_writer import ParallelWriter
from boilerhouse.platform.archive.reader import Reader
from boilerhouse.platform.archive.source import Source
from boilerhouse.platform.archive.tree import Tree
from boilerhouse.platform.archive.walk import Root


class Unpack:
    """One archive on its way into overlays."""

    def __init__(self, source: Source, reader: Reader, roots: Sequence[Root], owners: bool) -> None:
        self._reader = reader
        self._writer = ParallelWriter(source)
        self._trees = {
            tuple(path.split(b"/")): Tree(root, self._writer, owners, reader.imply)
            for path, root in roots
        }
        self._entries = Entries(source, reader, self._trees)

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
                    raise not_written(found[0].name, error.errno or 0) from error
            self._reader.finish()
            for tree in self._trees.values():
                tree.close()
            self._writer.settle()
        except BadArchive:
            self._writer.settle()  # which raises what is wrong with an earlier entry
            raise
        finally:
            self._writer.close()
            for tree in self._trees.values():
                tree.abandon()
