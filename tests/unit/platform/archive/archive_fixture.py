"""Trees made, described entry by entry, packed and unpacked."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from boilerhouse.platform.archive.clearing import empty
from boilerhouse.platform.archive.model import Fingerprint, Limits, Owners, Packed
from boilerhouse.platform.archive.packer import Packer, fingerprint
from boilerhouse.platform.archive.unpacker import Unpacker

KEPT = Owners()
USUAL = Limits()


def look(overlays: Mapping[str, Path]) -> Fingerprint:
    return asyncio.run(fingerprint(overlays))


def clear(overlays: Mapping[str, Path]) -> None:
    asyncio.run(empty(overlays))


def pack(
    overlays: Mapping[str, Path], owners: Owners = KEPT, *, deep: bool = False
) -> tuple[bytes, Packed]:
    """Return the archive of the overlays and what was said about it."""
    return asyncio.run(_pack(overlays, owners, deep))


async def _pack(overlays: Mapping[str, Path], owners: Owners, deep: bool) -> tuple[bytes, Packed]:
    packer = Packer(overlays, owners=owners, deep=deep)
    try:
        archive = b"".join([piece async for piece in packer])
    finally:
        await packer.close()
    result = packer.result()
    assert hashlib.sha256(archive).hexdigest() == result.sha256
    assert len(archive) == result.size
    return archive, result


def unpack(
    archive: bytes | Iterable[bytes],
    overlays: Mapping[str, Path],
    limits: Limits = USUAL,
    owners: Owners = KEPT,
) -> Packed:
    """Unpack an archive that is there as a whole, or comes in pieces."""
    return asyncio.run(_unpack(archive, overlays, limits, owners))


async def _unpack(
    archive: bytes | Iterable[bytes], overlays: Mapping[str, Path], limits: Limits, owners: Owners
) -> Packed:
    pieces = (
        (archive[at : at + 65536] for at in range(0, len(archive), 65536))
        if isinstance(archive, bytes)
        else archive
    )
    unpacker = Unpacker(overlays, limits=limits, owners=owners)
    try:
        for piece in pieces:
            await unpacker.feed(piece)
        return await unpacker.finish()
    finally:
        await unpacker.abort()


def described(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Return everything that is to survive, by path: the whole of it can be compared at once."""
    top = os.fsencode(root)
    linked: dict[int, bytes] = {}
    found = {}
    for path in sorted(_paths(top)):
        name = os.path.relpath(path, top)
        about = os.lstat(path)
        facts: list[object] = [
            stat.S_IFMT(about.st_mode),
            stat.S_IMODE(about.st_mode),
            about.st_mtime_ns,
            about.st_uid,
            about.st_gid,
        ]
        if stat.S_ISREG(about.st_mode):
            facts += [about.st_size, _content(path), linked.setdefault(about.st_ino, name)]
        elif stat.S_ISLNK(about.st_mode):
            facts += [Path(os.fsdecode(path)).readlink(), linked.setdefault(about.st_ino, name)]
        if not stat.S_ISLNK(about.st_mode):
            facts.append({key: os.getxattr(path, key) for key in os.listxattr(path)})
        found[name] = tuple(facts)
    return found


def _paths(top: bytes) -> Iterable[bytes]:
    yield top
    for directory, directories, files in os.walk(top):
        for name in directories + files:
            yield directory + b"/" + name


def _content(path: bytes) -> str:
    digest = hashlib.sha256()
    with Path(os.fsdecode(path)).open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
