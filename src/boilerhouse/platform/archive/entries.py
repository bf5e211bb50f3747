"""What may stand in an archive, and where it goes: the same rules for restores and for uploads.

    Reader ─► Entries ─► which overlay ─► Tree, which makes files | Sketch, which remembers names

Refused: devices, what lies below something that is no directory, hard links that lead elsewhere.
Left out and named: what is in no overlay. Whoever refuses for a reason that both can have says it
in the words that stand here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from boilerhouse.platform.archive import header
from boilerhouse.platform.archive.failures import ArchiveError, BadArchive, Failed
from boilerhouse.platform.archive.header import BLOCK, Member, shown
from boilerhouse.platform.archive.reader import Layout, Parts, Reader
from boilerhouse.platform.archive.source import Source

TYPE_CHECKING = False  # `typing` itself is not imported: that takes as long as a small restore
if TYPE_CHECKING:
    from boilerhouse.platform.archive.sketch import Sketch
    from boilerhouse.platform.archive.tree import Tree

Path = tuple[bytes, ...]  # of an overlay

_NAMED = 100
_ATTRIBUTE_NAME = 255  # bytes that the kernel takes
_ATTRIBUTE = 64 << 10


class Entries:
    """Says of each entry where it goes.

    `placed` counts the entries that are in an overlay; `skipped` names those that are in none.
    """

    def __init__(
        self,
        source: Source,
        reader: Reader,
        targets: Mapping[Path, Tree | Sketch],
    ) -> None:
        self._source = source
        self._reader = reader
        self._targets = targets
        self._above = {path[:length] for path in targets for length in range(len(path))}
        self._lengths = sorted({len(path) for path in targets})
        self._left_out: list[Parts] = []
        self.placed = 0
        self.skipped: list[str] = []

    def place(self, member: Member, parts: Parts, layout: Layout) -> None:
        """Take one entry and its content; `BadArchive` if it may not be there."""
        found = self._find(parts)
        if found is None:
            self._leave_out(member, parts)
            self._source.skip(layout[2] + -member.size % BLOCK)
            return
        self.placed += 1
        path, target = found
        below = parts[len(path) :]
        kind = member.kind
        if kind == header.FILE:
            _check_attributes(member)
            target.file(below, member, layout)
            self._source.skip(-member.size % BLOCK)
        elif kind == header.DIRECTORY:
            _check_attributes(member)
            target.directory(below, member)
        elif kind == header.SYMLINK:
            if not member.link or len(member.link) > 4095:
                raise BadArchive("bad-link", f"{shown(member.name)} points nowhere")
            target.symlink(below, member)
        elif kind == header.HARD_LINK:
            linked = self._reader.parts(member.link)
            if tuple(linked[: len(path)]) != path:
                raise BadArchive(
                    "link-outside", f"{shown(member.name)} is linked to {shown(member.link)}"
                )
            linked = linked[len(path) :]
            if linked == below or not linked:
                raise BadArchive("bad-link", f"{shown(member.name)} is linked to itself")
            target.hard_link(below, member, linked)
        else:
            target.fifo(below, member)

    def _find(self, parts: Parts) -> tuple[Path, Tree | Sketch] | None:
        for length in self._lengths:
            path = tuple(parts[:length])
            target = self._targets.get(path)
            if target is not None:
                return path, target
        return None

    def _leave_out(self, member: Member, parts: Parts) -> None:
        if tuple(parts) in self._above and member.kind == header.DIRECTORY:
            return  # on the way to an overlay
        if any(parts[: len(known)] == known for known in self._left_out):
            return  # below what is named already
        if len(self._left_out) < _NAMED:
            self._left_out.append(parts)
            self.skipped.append(f"{shown(b'/'.join(parts))}: in no overlay directory")


def _check_attributes(member: Member) -> None:
    if not member.records:
        return
    for name, value in header.xattrs(member).items():
        if name == b"user." or len(name) > _ATTRIBUTE_NAME or len(value) > _ATTRIBUTE:
            words = "no file system has an attribute like that"
            raise BadArchive("bad-attribute", f"{shown(member.name)}: {shown(name)}: {words}")


def in_common(one: Parts, other: Parts) -> int:
    """Return how many components two paths have in common, from the first on."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:  # the usual case, and a path may have thousands
        return most
    same = 0
    while one[same] == other[same]:
        same += 1
    return same


def not_the_overlay() -> BadArchive:
    """Refuse an entry that would be in place of the overlay directory."""
    return BadArchive("bad-name", "an overlay directory is something else in the archive")


def through_link(parts: Parts) -> BadArchive:
    """Refuse what lies below something that is no directory, or is linked to such a place."""
    where = shown(b"/".join(parts))
    return BadArchive("through-link", f"{where} is no directory, though entries are below it")


def twice(parts: Parts) -> BadArchive:
    """Refuse what would take the place of a directory that is not empty."""
    where = shown(b"/".join(parts))
    return BadArchive("twice", f"{where} is a directory with entries and something else")


def linked_to_nothing(member: Member) -> BadArchive:
    """Refuse a hard link to what no earlier entry has made."""
    return BadArchive("bad-link", f"{shown(member.name)} is linked to what is not there")


def linked_to_directory(member: Member) -> BadArchive:
    """Refuse a hard link to a directory."""
    return BadArchive("bad-link", f"{shown(member.name)} is linked to a directory")


def not_written(name: bytes, number: int) -> ArchiveError:
    """Say why an entry could not be made, by the number of the kernel's error."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return Failed("disk-full", f"{shown(name)} cannot be written: the disk is full")
    if number == errno.EFBIG:
        return BadArchive("too-large", f"{shown(name)} is larger than a file can be here")
    if number == errno.EMFILE:
        return BadArchive("too-deep", f"{shown(name)} lies deeper than files may be open at once")
    return Failed("io-error", f"{shown(name)} cannot be written: {os.strerror(number)}")
