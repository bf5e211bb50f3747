"""Archives that no decent program writes, made byte by byte."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator

from boilerhouse.platform.archive.header import (
    CHAR,
    DIRECTORY,
    FIFO,
    FILE,
    HARD_LINK,
    SYMLINK,
    Member,
    encode,
)

END = bytes(1024)


def entry(
    name: bytes,
    kind: bytes = FILE,
    content: bytes = b"",
    *,
    link: bytes = b"",
    mode: int = 0o644,
    size: int | None = None,
    records: dict[bytes, bytes] | None = None,
) -> bytes:
    """Return a member with its content; `size` is what the header says, if not the truth."""
    said = len(content) if size is None else size
    member = Member(name, kind, mode, 0, 0, said, 1_700_000_000 * 10**9, link, records)
    return encode(member) + content + bytes(-len(content) % 512)


def file(name: bytes, content: bytes = b"evil", mode: int = 0o644) -> bytes:
    return entry(name, FILE, content, mode=mode)


def directory(name: bytes, mode: int = 0o755) -> bytes:
    return entry(name, DIRECTORY, mode=mode)


def symlink(name: bytes, target: bytes) -> bytes:
    return entry(name, SYMLINK, link=target)


def hard_link(name: bytes, target: bytes) -> bytes:
    return entry(name, HARD_LINK, link=target)


def fifo(name: bytes, mode: int = 0o644) -> bytes:
    return entry(name, FIFO, mode=mode)


def device(name: bytes, kind: bytes = CHAR) -> bytes:
    return entry(name, kind)


def archive(*members: bytes) -> bytes:
    return gzip.compress(b"".join(members) + END)


def stream(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Compress as it goes: what is larger than memory."""
    squeeze = zlib.compressobj(1, wbits=31)
    for piece in pieces:
        if out := squeeze.compress(piece):
            yield out
    yield squeeze.flush()
