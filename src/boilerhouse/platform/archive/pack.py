"""Overlays into a gzip tar stream: what the worker does for a save.

    walk ─► header + content ─► 256 KiB at a time ─► isal ─► sha256 ─► out

FIFOs are kept. Sockets and devices are not: neither means anything without the process or machine
that made them; they are named in the report. Modes are written down as they are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from hashlib import sha256

from isal import isal_zlib

from boilerhouse.platform.archive import header, sparse
from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.header import ATTRIBUTES, BLOCK, Member, shown
from boilerhouse.platform.archive.threads import Behind
from boilerhouse.platform.archive.walk import GONE, Root, unreadable, walk
from boilerhouse.platform.files.treewalk import Entry

# NONBLOCK: what was a file a moment ago may be a FIFO now.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 256 << 10
_LEVEL = 1  # of compression
_NAMED = 100  # skipped entries that are named
_LINKS = 50_000  # files with names still to come that are remembered; more are stored apart
_LINK_BYTES = 16 << 20  # of their paths
_RECORD = 10_240  # the length of an archive is a multiple of this, by custom


class Gzip:
    """Compresses what it is given, a good piece at a time, and hashes what comes out."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._gzip = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, 31)
        self._sha256 = sha256()
        self._behind = Behind(lambda piece: self._send(self._gzip.compress(piece)))
        self._held: list[bytes] = []
        self._length = 0
        self.given = 0
        self.size = 0

    def put(self, piece: bytes) -> None:
        if len(piece) > 2 * _PIECE:  # the header of what lies very deep
            for at in range(0, len(piece), _PIECE):
                self.put(piece[at : at + _PIECE])
            return
        self._held.append(piece)
        self._length += len(piece)
        if self._length >= _PIECE:
            self._hand_over()

    def pad(self, multiple: int) -> None:
        self.put(bytes(-(self.given + self._length) % multiple))

    def end(self) -> str:
        """Finish the stream; returns the digest of all that came out."""
        self._hand_over()
        self._behind.end()
        self._send(self._gzip.flush())
        return self._sha256.hexdigest()

    def _hand_over(self) -> None:
        if self._length:
            self.given += self._length
            self._behind.put(b"".join(self._held))
            self._held.clear()
            self._length = 0

    def _send(self, piece: bytes) -> None:
        if piece:
            self._sha256.update(piece)
            self.size += len(piece)
            self._write(piece)


class Pack:
    """One archive in the making."""

    def __init__(self, out: Gzip, owner: tuple[int, int] | None) -> None:
        self._out = out
        self._owner = owner
        self._links: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._link_bytes = 0
        self.entries = 0
        self.content = 0
        self.skipped: list[str] = []

    def run(self, roots: Sequence[Root]) -> None:
        for path, entry, directory, is_directory in walk(roots):
            try:
                if is_directory:
                    self._directory(path, directory)
                else:
                    assert entry is not None
                    self._entry(path, entry, directory)
            except OSError as error:
                if error.errno not in GONE:
                    raise unreadable(path, error) from error
        self._out.put(bytes(2 * BLOCK))
        self._out.pad(_RECORD)

    def _directory(self, path: bytes, directory: int) -> None:
        found = os.fstat(directory)
        self._put(path + b"/", header.DIRECTORY, found, records=_xattrs(directory))

    def _entry(self, path: bytes, entry: Entry, directory: int) -> None:
        if entry.is_file(follow_symlinks=False):
            self._file(path, entry.name, directory)
            return
        found = entry.stat(follow_symlinks=False)
        mode = found.st_mode
        if stat.S_ISLNK(mode):
            link = os.fsencode(os.readlink(entry.name, dir_fd=directory))
            if not self._linked(path, found):
                self._put(path, header.SYMLINK, found, link=link)
        elif stat.S_ISFIFO(mode):
            if not self._linked(path, found):
                self._put(path, header.FIFO, found)
        else:
            self._skip(path, "a socket" if stat.S_ISSOCK(mode) else "a device")

    def _file(self, path: bytes, name: str, directory: int) -> None:
        file = os.open(name, _OPEN_FILE, dir_fd=directory)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                return  # exchanged meanwhile, which the next fingerprint will tell
            if found.st_nlink > 1 and self._linked(path, found):
                return
            records = _xattrs(file)
            size = found.st_size
            if found.st_blocks * 512 < size:
                parts = sparse.extents(file, size)
                if parts != [(0, size)]:
                    self._sparse(path, file, found, parts, records)
                    return
            self._put(path, header.FILE, found, size, records=records)
            self._content(file, 0, size)
            self._out.put(bytes(-size % BLOCK))
        finally:
            os.close(file)

    def _sparse(
        self,
        path: bytes,
        file: int,
        found: os.stat_result,
        parts: list[sparse.Extent],
        records: dict[bytes, bytes] | None,
    ) -> None:
        name, about, text = sparse.written(path, found.st_size, parts)
        size = len(text) + sum(length for _, length in parts)
        self._put(name, header.FILE, found, size, records={**about, **(records or {})})
        self._out.put(text)
        for offset, length in parts:
            self._content(file, offset, length)
        self._out.put(bytes(-size % BLOCK))

    def _content(self, file: int, offset: int, length: int) -> None:
        """Put that much, come what may: the header has promised it."""
        end = offset + length
        while offset < end:
            piece = os.pread(file, min(end - offset, _PIECE), offset)
            if not piece:  # it was cut meanwhile
                self._out.put(bytes(min(end - offset, _PIECE)))
                offset += min(end - offset, _PIECE)
                continue
            self._out.put(piece)
            offset += len(piece)

    def _linked(self, path: bytes, found: os.stat_result) -> bool:
        """Write a file that is in the archive already as another name of it."""
        if found.st_nlink < 2:
            return False
        key = found.st_dev, found.st_ino
        known = self._links.get(key)
        if known is None:
            if len(self._links) < _LINKS and self._link_bytes + len(path) <= _LINK_BYTES:
                self._links[key] = path, found.st_nlink - 1
                self._link_bytes += len(path)
            return False
        first, left = known
        if left > 1:
            self._links[key] = first, left - 1
        else:
            del self._links[key]
            self._link_bytes -= len(first)
        self._put(path, header.HARD_LINK, found, link=first)
        return True

    def _put(
        self,
        name: bytes,
        kind: bytes,
        found: os.stat_result,
        size: int = 0,
        link: bytes = b"",
        records: dict[bytes, bytes] | None = None,
    ) -> None:
        uid, gid = self._owner or (found.st_uid, found.st_gid)
        member = Member(
            name,
            kind,
            stat.S_IMODE(found.st_mode),
            uid,
            gid,
            size,
            found.st_mtime_ns,
            link,
            records,
        )
        before = header.encode(member)
        self.entries += 1
        self.content += size
        if len(before) > ATTRIBUTES:
            used = sum(map(len, records.values())) if records else 0
            if used > ATTRIBUTES:
                raise Failed("too-large", f"{shown(name)} has {used} bytes of attributes")
        self._out.put(before)

    def _skip(self, path: bytes, what: str) -> None:
        if len(self.skipped) < _NAMED:
            self.skipped.append(f"{shown(path)}: {what}, which cannot be kept")


def _xattrs(file: int) -> dict[bytes, bytes] | None:
    """Return the attributes that a tenant can set, as pax records."""
    try:
        names = os.listxattr(file)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return None
        raise
    records = {}
    for name in names:
        if name.startswith("user."):
            with contextlib.suppress(OSError):  # taken away meanwhile
                records[header.xattr_record(name)] = os.getxattr(file, name)
    return records or None
