"""A gzip tar stream into overlays: what the worker does for a restore.

    Reader ─► which overlay ─► Tree

Refused: devices. Taken off: setuid and setgid of files. Left out and named: what is in no overlay.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from boilerhouse.agent.archive import header
from boilerhouse.agent.archive.failures import BadArchive, Failed
from boilerhouse.agent.archive.header import BLOCK, Member, shown
from boilerhouse.agent.archive.reader import Layout, Parts, Reader
from boilerhouse.agent.archive.source import Source
from boilerhouse.agent.archive.tree import Tree
from boilerhouse.agent.archive.walk import Root

_NAMED = 100


class Unpack:
    """One archive on its way into overlays."""

    def __init__(self, source: Source, reader: Reader, roots: Sequence[Root], owners: bool) -> None:
        self._source = source
        self._reader = reader
        self._trees = {tuple(path.split(b"/")): Tree(root, owners) for path, root in roots}
        self._above = {path[:length] for path in self._trees for length in range(len(path))}
        self._lengths = sorted({len(path) for path in self._trees})
        self._left_out: list[Parts] = []
        self.skipped: list[str] = []

    def run(self) -> None:
        """Take everything, to the last byte."""
        try:
            while (found := self._reader.next()) is not None:
                member, parts, layout = found
                try:
                    self._member(member, parts, layout)
                except OSError as error:
                    raise _failed(member, error) from error
            self._reader.finish()
            for tree in self._trees.values():
                tree.close()
        finally:
            for tree in self._trees.values():
                tree.abandon()

    def _member(self, member: Member, parts: Parts, layout: Layout) -> None:
        place = self._place(parts)
        if place is None:
            self._leave_out(member, parts)
            self._source.skip(layout[2] + -member.size % BLOCK)
            return
        path, tree = place
        below = parts[len(path) :]
        kind = member.kind
        if kind == header.FILE:
            tree.file(below, member, lambda file: self._fill(file, layout))
            self._source.skip(-member.size % BLOCK)
        elif kind == header.DIRECTORY:
            tree.directory(below, member)
        elif kind == header.SYMLINK:
            if not member.link or len(member.link) > 4095:
                raise BadArchive("bad-link", f"{shown(member.name)} points nowhere")
            tree.symlink(below, member)
        elif kind == header.HARD_LINK:
            target = self._reader.parts(member.link)
            if tuple(target[: len(path)]) != path:
                raise BadArchive(
                    "link-outside", f"{shown(member.name)} is linked to {shown(member.link)}"
                )
            tree.hard_link(below, member, target[len(path) :])
        else:
            tree.fifo(below, member)

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

    def _place(self, parts: Parts) -> tuple[tuple[bytes, ...], Tree] | None:
        for length in self._lengths:
            path = tuple(parts[:length])
            tree = self._trees.get(path)
            if tree is not None:
                return path, tree
        return None

    def _leave_out(self, member: Member, parts: Parts) -> None:
        if tuple(parts) in self._above and member.kind == header.DIRECTORY:
            return  # on the way to an overlay
        if any(parts[: len(known)] == known for known in self._left_out):
            return  # below what is named already
        if len(self._left_out) < _NAMED:
            self._left_out.append(parts)
            self.skipped.append(f"{shown(b'/'.join(parts))}: in no overlay directory")


def _failed(member: Member, error: OSError) -> Exception:
    name = shown(member.name)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed("disk-full", f"{name} cannot be written: the disk is full")
    if error.errno == errno.EFBIG:
        return BadArchive("too-large", f"{name} is larger than a file can be here")
    if error.errno == errno.EMFILE:
        return BadArchive("too-deep", f"{name} lies deeper than files may be open at once")
    return Failed("io-error", f"{name} cannot be written: {error.strerror}")
