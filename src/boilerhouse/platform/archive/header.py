"""Tar headers, written and read: the blocks between the contents. Pure.

    Member ─► encode ─► [pax block, records] block           block, pax records ─► decode ─► Member

Written is POSIX pax, which every tar reads. Read is that, and what GNU tar writes by default, so
that an archive made by hand can be imported. What is not understood is refused rather than guessed:
another reader might take it for something else.
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from zlib import adler32

from boilerhouse.platform.archive.failures import BadArchive

BLOCK = 512
LEVELS = 25_000  # directories in one another, below an overlay's own
PATH_BYTES_LIMIT = 4096 + LEVELS * 256  # an overlay's path, and as many names as may be
ATTRIBUTES = 1 << 20  # bytes of the attributes of one file, which may be 64 KiB each
RECORDS = ATTRIBUTES + 3 * PATH_BYTES_LIMIT  # bytes of a pax header: names file, link, sparse file
FILE, HARD_LINK, SYMLINK, CHAR, DEVICE, DIRECTORY, FIFO = (b"%d" % n for n in range(7))
OLD_SPARSE = b"S"
PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK = b"x", b"g", b"L", b"K"
XATTR = b"SCHILY.xattr."

_KINDS = frozenset((FILE, HARD_LINK, SYMLINK, DIRECTORY, FIFO))
_SECOND = 1_000_000_000
_FAR_OFF = 1 << 95  # a moment that no kernel takes, in nanoseconds
_NOBODY = 0xFFFFFFFF  # means "no id" to the kernel
_OCTAL_7 = 0o7777777  # the most that seven digits say
_OCTAL_11 = 0o77777777777


class Member:
    """One entry of an archive."""

    __slots__ = ("gid", "kind", "link", "mode", "mtime", "name", "records", "size", "uid")

    def __init__(
        self,
        name: bytes,
        kind: bytes,
        mode: int,
        uid: int,
        gid: int,
        size: int,
        mtime: int,
        link: bytes = b"",
        records: dict[bytes, bytes] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.size = size  # of what follows in the archive
        self.mtime = mtime  # nanoseconds
        self.link = link
        self.records = records  # further pax records: xattrs, GNU.sparse.…


def encode(member: Member) -> bytes:
    """Return the blocks that stand before a member's content."""
    name, link, mtime = member.name, member.link, member.mtime
    records = b""
    seconds, fraction = divmod(mtime, _SECOND)
    if fraction or not 0 <= seconds <= _OCTAL_11:
        records = _record(b"mtime", _decimal(mtime))
        seconds = seconds if 0 <= seconds <= _OCTAL_11 else 0
    if len(name) > 100:
        records += _record(b"path", name)
    if len(link) > 100:
        records += _record(b"linkpath", link)
    uid, gid, size = member.uid, member.gid, member.size
    if uid > _OCTAL_7:
        records += _record(b"uid", b"%d" % uid)
        uid = 0
    if gid > _OCTAL_7:
        records += _record(b"gid", b"%d" % gid)
        gid = 0
    if size > _OCTAL_11:
        records += _record(b"size", b"%d" % size)
        size = 0
    if member.records:
        records += b"".join(_record(key, value) for key, value in member.records.items())
    block = _block(name, member.mode, uid, gid, size, seconds, member.kind, link)
    if not records:
        return block
    about = _block(b"PaxHeaders/" + name[-80:], 0o644, 0, 0, len(records), 0, PAX, b"")
    return about + records + bytes(-len(records) % BLOCK) + block


def _block(
    name: bytes, mode: int, uid: int, gid: int, size: int, mtime: int, kind: bytes, link: bytes
) -> bytes:
    head = b"%b%07o\0%07o\0%07o\0%011o\0%011o\0" % (
        name[:100].ljust(100, b"\0"),
        mode,
        uid,
        gid,
        size,
        mtime,
    )
    tail = kind + link[:100].ljust(100, b"\0") + b"ustar\x0000"
    # Its own field counts as spaces. The lower half of adler32 is the sum, while it is below 65521.
    checksum = (adler32(head, 0) & 0xFFFF) + (adler32(tail, 0) & 0xFFFF) + 8 * 32
    return b"%b%06o\0 %b%b" % (head, checksum, tail, _REST)


_REST = bytes(BLOCK - 265)


def _record(key: bytes, value: bytes) -> bytes:
    """Return `<length> <key>=<value>\\n`, where the length counts its own digits."""
    bare = len(key) + len(value) + 3
    length = bare + len(str(bare))
    if len(str(length)) != len(str(bare)):
        length = bare + len(str(length))
    return b"%d %b=%b\n" % (length, key, value)


def _decimal(moment: int) -> bytes:
    seconds, fraction = divmod(abs(moment), _SECOND)
    return b"%b%d.%09d" % (b"-" if moment < 0 else b"", seconds, fraction)


def xattr_record(name: str) -> bytes:
    """Return the record of an extended attribute; its key cannot hold an equals sign."""
    return XATTR + os.fsencode(name).replace(b"%", b"%25").replace(b"=", b"%3D")


def xattrs(member: Member) -> dict[bytes, bytes]:
    """Return a member's extended attributes: those that a tenant could set itself."""
    if not member.records:
        return {}
    return {
        key[len(XATTR) :].replace(b"%3D", b"=").replace(b"%25", b"%"): value
        for key, value in member.records.items()
        if key.startswith(XATTR + b"user.")
    }


def decode(block: bytes, records: dict[bytes, bytes]) -> Member:
    """Read a member's block, with what the pax records before it said."""
    kind = block[156:157]
    if kind == b"\0" or kind == b"7":
        kind = FILE
    magic = block[257:263]
    name = records.get(b"path") or block[:100].partition(b"\0")[0]
    if magic == b"ustar\0" and block[345] and b"path" not in records:
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    if kind == FILE and name.endswith(b"/"):
        kind = DIRECTORY  # before POSIX, the slash said so
    if kind not in _KINDS and kind != OLD_SPARSE:
        raise _strange(kind, name)
    mode, uid, gid, size, mtime = _numbers(block)
    link = b""
    if kind in (HARD_LINK, SYMLINK):
        link = records.get(b"linkpath") or block[157:257].partition(b"\0")[0]
    if records:
        if b"mtime" in records:
            mtime = _moment(records[b"mtime"])
        if b"size" in records:
            size = _whole(records[b"size"])
        if b"uid" in records:
            uid = _whole(records[b"uid"])
        if b"gid" in records:
            gid = _whole(records[b"gid"])
    if kind != FILE and kind != OLD_SPARSE and size:
        if kind != DIRECTORY:
            raise BadArchive("bad-header", f"{shown(name)} has content, though it is no file")
        raise BadArchive("bad-header", f"{shown(name)} is a directory with content")
    possible = 0 <= uid < _NOBODY and 0 <= gid < _NOBODY and size >= 0 and abs(mtime) < _FAR_OFF
    if not possible:
        raise BadArchive("bad-header", f"{shown(name)} has an owner, size or time that cannot be")
    return Member(name, kind, mode & 0o7777, uid, gid, size, mtime, link, records)


def decode_usual(held: bytes, at: int) -> tuple[Member, int] | None:
    """Read a file's or directory's headers at once, if they are like nearly everybody's.

    These are one block, as tar writes it by default, or three, as we do: a pax header with the time
    alone, and that block. Returns the member and how long its headers are. None for whatever else,
    valid or not: `pax` and `decode` will say, which take three times as long.
    """
    end, mtime = at + BLOCK, -1
    if held[at + 156 : at + 157] == PAX:
        if len(held) < at + 3 * BLOCK:
            return None
        length, outer, key, seconds, dot, fraction, newline = _TIME.unpack_from(held, at)
        if (
            key != b"30 mtime="
            or length != b"00000000036\0"
            or dot != b"."
            or newline != b"\n"
            or not (seconds + fraction).isdigit()
            or not _sums(held[at:end], outer)
        ):
            return None
        end += 2 * BLOCK
        mtime = int(seconds) * _SECOND + int(fraction)
    if len(held) < end:
        return None
    name, rights, size, changed, inner, kind, magic, prefix = _USUAL.unpack_from(held, end - BLOCK)
    about = _rights(rights)
    if (
        about is None
        or (kind != FILE and kind != DIRECTORY)
        or (magic != b"ustar\0" and magic != b"ustar ")
        or prefix != b"\0"
        or size[11] or changed[11]
        or not (size[:11] + changed[:11]).isdigit()
        or not _sums(held[end - BLOCK : end], inner)
    ):  # fmt: skip
        return None
    try:
        data = int(size[:11], 8)
        if mtime < 0:
            mtime = int(changed[:11], 8) * _SECOND
    except ValueError:
        return None
    name = name.partition(b"\0")[0]
    if (data and kind == DIRECTORY) or (kind == FILE and name.endswith(b"/")):
        return None
    return Member(name, kind, *about, data, mtime), end - at


_TIME = struct.Struct(
    "124x 12s 12x 8s 1x 355x"  # a pax header: length of the records, checksum
    "9s 10s 1s 9s 1s"  # the record of the time
)
_USUAL = struct.Struct("100s 24s 12s 12s 8s 1s 100x 6s 82x 1s")


@lru_cache(maxsize=64)
def _rights(fields: bytes) -> tuple[int, int, int] | None:
    """Return mode, uid and gid, where they are written as usual."""
    mode, uid, gid, ends = fields[:7], fields[8:15], fields[16:23], fields[7::8]
    if not (mode + uid + gid).isdigit() or ends != bytes(3):
        return None
    try:
        return int(mode, 8) & 0o7777, int(uid, 8), int(gid, 8)
    except ValueError:
        return None


def _sums(block: bytes, said: bytes) -> bool:
    """Whether a block's checksum, written as usual, is right."""
    found = (adler32(block, 0) & 0xFFFF) - (adler32(said, 0) & 0xFFFF) + 8 * 32
    return b"%06o\0 " % (found % 65521) == said


_WIDTHS = [7, 7, 7, 11, 11, 0]  # of the numbers in a block, as nearly everybody writes them


def check(block: bytes) -> None:
    """Refuse a block that is no header: its checksum must be right."""
    try:
        said = int(block[148:156].strip(b"\0 ") or b"-", 8)
    except ValueError:
        said = -1
    # The lower half of adler32 is the sum of the bytes modulo 65521, in a twentieth of the time.
    found = (adler32(block, 0) & 0xFFFF) - (adler32(block[148:156], 0) & 0xFFFF) + 8 * 32
    if said < 0 or (found - said) % 65521:
        raise BadArchive("bad-header", "what stands where a tar header should be is not one")


def _numbers(block: bytes) -> tuple[int, int, int, int, int]:
    """Return mode, uid, gid, size and mtime in nanoseconds."""
    fields = block[100:148].split(b"\0")
    if list(map(len, fields)) == _WIDTHS:
        try:
            mode, uid, gid, size, mtime = [int(field, 8) for field in fields[:5]]
        except ValueError:
            pass
        else:
            return mode, uid, gid, size, mtime * _SECOND
    return (
        number(block[100:108]), number(block[108:116]), number(block[116:124]),
        number(block[124:136]), number(block[136:148]) * _SECOND,
    )  # fmt: skip


def number(field: bytes) -> int:
    """Read a numeric field: octal digits, or GNU's binary form."""
    try:
        return int(field.strip(b"\0 ") or b"0", 8)
    except ValueError:
        pass
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if field[0] == 0xFF:
        return int.from_bytes(field, "big", signed=True)
    raise BadArchive("bad-header", "a tar header has a field that is not a number")


def pax(content: bytes) -> dict[bytes, bytes]:
    """Read pax records: those that are used, the last of each; the others mean nothing here."""
    records: dict[bytes, bytes] = {}
    at, end = 0, len(content)
    while at < end:
        space = content.find(b" ", at, at + 8)
        length = _whole(content[at:space]) if space > 0 else 0
        key, equals, value = content[space + 1 : at + length].partition(b"=")
        if length < 5 or at + length > end or not equals or value[-1:] != b"\n":
            raise BadArchive("bad-header", "a pax header is not a list of records")
        at += length
        if key in _USED or key.startswith((XATTR, b"GNU.sparse.")):
            if b"\0" in key or (key in _NAMES and b"\0" in value):
                raise BadArchive("bad-name", "a name has a zero byte in it")
            records[key] = value[:-1]
    return records


_NAMES = frozenset((b"path", b"linkpath", b"GNU.sparse.name"))
_USED = _NAMES | {b"mtime", b"size", b"uid", b"gid"}


def _whole(text: bytes) -> int:
    if not text.isdigit() or len(text) > 19:
        raise BadArchive("bad-header", f"a pax header has {text[:20]!r} for a number")
    return int(text)


def _moment(text: bytes) -> int:
    sign, digits = (-1, text[1:]) if text[:1] == b"-" else (1, text)
    whole, _, fraction = digits.partition(b".")
    if not (whole + fraction).isdigit() or len(whole) > 18:
        raise BadArchive("bad-header", f"a pax header has {text[:20]!r} for a time")
    return sign * (int(whole or b"0") * _SECOND + int(fraction[:9].ljust(9, b"0")))


def _strange(kind: bytes, name: bytes) -> BadArchive:
    if kind in (CHAR, DEVICE):
        return BadArchive("device", f"{shown(name)} is a device, which no instance may have")
    return BadArchive("bad-header", f"{shown(name)} is of the unknown kind {kind!r}")


def shown(name: bytes) -> str:
    """Return a name for people: printable and not too long."""
    if len(name) > 4096:  # what is shown of it is the same
        name = name[:1000] + name[-1000:]
    text = ascii(name.decode("utf-8", "surrogateescape"))
    return text if len(text) <= 200 else f"{text[:100]}…{text[-90:]}"
