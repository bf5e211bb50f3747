"""Files with holes: which parts hold data, and how an archive says so.

Written is GNU's pax form 1.0: the map stands, as text, before the data. Read are that, form 0.1
(the map is a record) and the old GNU form (the map is in the header), which `tar -S` writes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.header import BLOCK, Member, number, shown

Extent = tuple[int, int]  # offset, length
EXTENTS = 32_768  # in one file; what is behind the last is kept as if it had no holes


def extents(file: int, size: int) -> list[Extent]:
    """Ask the file system where a file of this size has data."""
    found: list[Extent] = []
    at = 0
    try:
        while at < size:
            start = os.lseek(file, at, os.SEEK_DATA)
            if start >= size:
                break
            if len(found) == EXTENTS:
                found.append((start, size - start))
                break
            at = min(os.lseek(file, start, os.SEEK_HOLE), size)
            found.append((start, at - start))
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing but a hole from here on
            raise
    return found


def written(name: bytes, size: int, found: list[Extent]) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Return the name for the header, the records, and the map that stands before the data."""
    ends = found[-1][0] + found[-1][1] if found else 0
    pairs = found if ends == size else [*found, (size, 0)]
    text = b"%d\n" % len(pairs) + b"".join(b"%d\n%d\n" % pair for pair in pairs)
    above, _, last = name.rpartition(b"/")
    records = {
        b"GNU.sparse.major": b"1",
        b"GNU.sparse.minor": b"0",
        b"GNU.sparse.name": name,
        b"GNU.sparse.realsize": b"%d" % size,
    }
    return above + b"/GNUSparseFile.0/" + last, records, text + bytes(-len(text) % BLOCK)


def told(records: dict[bytes, bytes]) -> bool:
    """Whether pax records say that a member is sparse."""
    return any(key.startswith(b"GNU.sparse.") for key in records)


def read(
    member: Member, block: bytes, take: Callable[[int], bytes]
) -> tuple[int, list[Extent], int]:
    """Return a sparse member's size, its extents and the bytes of data.

    `take` gets what stands between the header and the data, and the member's name is put right.
    """
    records = member.records or {}
    if member.kind == b"S":
        return _checked(member, *_old(block, take), member.size)
    form = records.get(b"GNU.sparse.major"), records.get(b"GNU.sparse.minor")
    if form == (b"1", b"0"):
        size = records.get(b"GNU.sparse.realsize", b"")
        member.name = records.get(b"GNU.sparse.name", member.name)
        found, used = _text(member, take)
        return _checked(member, _number(size), found, member.size - used)
    if b"GNU.sparse.map" in records:
        size = records.get(b"GNU.sparse.size", b"")
        member.name = records.get(b"GNU.sparse.name", member.name)
        values = [_number(value) for value in records[b"GNU.sparse.map"].split(b",")]
        found = list(zip(values[::2], values[1::2], strict=len(values) % 2 == 0))
        return _checked(member, _number(size), found, member.size)
    raise BadArchive("bad-sparse", f"{shown(member.name)} is sparse in an unknown form")


def _old(block: bytes, take: Callable[[int], bytes]) -> tuple[int, list[Extent]]:
    size, found = number(block[483:495]), _pairs(block[386:482])
    more = block[482]
    while more:
        block = take(BLOCK)
        found += _pairs(block[:504])
        more = block[504]
        if len(found) > EXTENTS + 2:
            raise BadArchive("bad-sparse", "a sparse file has too many parts")
    return size, found


def _pairs(fields: bytes) -> list[Extent]:
    parts = [fields[at : at + 24] for at in range(0, len(fields), 24)]
    return [(number(part[:12]), number(part[12:])) for part in parts if part.strip(b"\0 ")]


def _text(member: Member, take: Callable[[int], bytes]) -> tuple[list[Extent], int]:
    """Read the map as text; returns it and how many bytes it took."""
    used = 0
    held = b""

    def line() -> int:
        nonlocal used, held
        while b"\n" not in held:
            if used + BLOCK > member.size or len(held) > 20:
                raise BadArchive("bad-sparse", f"the map of {shown(member.name)} does not end")
            held += take(BLOCK)
            used += BLOCK
        text, _, held = held.partition(b"\n")
        return _number(text)

    count = line()
    if count > EXTENTS + 2:
        raise BadArchive("bad-sparse", f"{shown(member.name)} has too many parts")
    return [(line(), line()) for _ in range(count)], used


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 19:
        raise BadArchive("bad-sparse", f"a sparse file's map has {text[:20]!r} for a number")
    return int(text)


def _checked(
    member: Member, size: int, found: list[Extent], data: int
) -> tuple[int, list[Extent], int]:
    at = 0
    for offset, length in found:
        if offset < at or length < 0:
            raise BadArchive("bad-sparse", f"the parts of {shown(member.name)} are out of order")
        at = offset + length
    if at > size or size >= 1 << 63 or sum(length for _, length in found) != data:
        raise BadArchive("bad-sparse", f"the parts of {shown(member.name)} do not add up")
    return size, found, data
