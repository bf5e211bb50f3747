"""Is what somebody uploads an archive at all? Looked at before it becomes a version.

Incoming (settled) ─► inspect ─► Counted, or Refused
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass

from boilerhouse.agent.protocol import Refused
from boilerhouse.helper.store.volume import Incoming
from boilerhouse.helper.transfer import Threads

_ENTRIES = 2_000_000
_CONTENT = 1 << 40
_READ = 256 << 10
_OUT = 1 << 20  # unpacked at once, however well it is packed
_TAR_BLOCK = 512
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Counted:
    """What is in an archive."""

    entries: int
    content: int


async def inspect(incoming: Incoming, threads: Threads) -> Counted:
    """Read an archive through; `Refused` (422) unless it is a whole gzip tar within limits."""
    return await threads.run(_inspect, incoming)


def _inspect(incoming: Incoming) -> Counted:
    file = incoming.reopen()
    try:
        return _walked(file)
    finally:
        os.close(file)


def _walked(file: int) -> Counted:
    headers = _Headers()
    unpacking = zlib.decompressobj(_GZIP)
    begun = False
    while packed := os.read(file, _READ):
        while packed:
            begun = True
            try:
                headers.feed(unpacking.decompress(packed, _OUT))
            except zlib.error as error:
                raise _bad(f"it is not gzip: {error}") from None
            packed = unpacking.unconsumed_tail
            if unpacking.eof:
                packed, unpacking, begun = unpacking.unused_data, zlib.decompressobj(_GZIP), False
    if begun or not headers.ended:
        raise _bad("it breaks off")
    return Counted(headers.entries, headers.content)


class _Headers:
    """Walks from header to header of a tar stream, and looks at nothing else."""

    def __init__(self) -> None:
        self.entries = 0
        self.content = 0
        self.ended = False
        self._rest = b""
        self._skip = 0

    def feed(self, piece: bytes) -> None:
        data = self._rest + piece
        at = min(self._skip, len(data))
        self._skip -= at
        while not self._skip and at + _TAR_BLOCK <= len(data) and not self.ended:
            self._header(data[at : at + _TAR_BLOCK])
            at += _TAR_BLOCK
            step = min(self._skip, len(data) - at)
            at, self._skip = at + step, self._skip - step
        self._rest = b"" if self.ended else data[at:]

    def _header(self, block: bytes) -> None:
        if not any(block):
            self.ended = True
            return
        total = sum(block) - sum(block[148:156]) + 8 * 32
        if total != _octal(block[148:156]):
            raise _bad("it is not a tar archive, or is damaged")
        size = _octal(block[124:136])
        if block[156:157] not in b"xgLKXVN":  # of these, the content is about the next entry
            self.entries += 1
            self.content += size
        if self.entries > _ENTRIES or self.content > _CONTENT:
            raise Refused(413, "too-large", "the archive holds more than can be restored")
        self._skip = -(-size // _TAR_BLOCK) * _TAR_BLOCK


def _octal(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.strip(b" \x00") or b"0", 8)
    except ValueError:
        raise _bad("it is not a tar archive, or is damaged") from None


def _bad(why: str) -> Refused:
    return Refused(422, "bad-archive", f"this is not an archive of a snapshot: {why}")
