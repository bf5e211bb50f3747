"""Could what somebody uploads be restored? Looked at before it becomes a version.

Incoming (settled) ─► Reader ─► Entries ─► Sketch: what restores use, without files ─► Counted
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from boilerhouse.node.helper.store.volume import Incoming
from boilerhouse.platform.archive.entries import Entries
from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.model import Limits
from boilerhouse.platform.archive.reader import Reader
from boilerhouse.platform.archive.sketch import Sketch
from boilerhouse.platform.archive.source import Inflater, Source
from boilerhouse.platform.rpc.refusal import Refused

_PIECE = 256 << 10


@dataclass(frozen=True, slots=True)
class Counted:
    """What is in an archive."""

    entries: int
    content: int


def inspect(incoming: Incoming, limits: Limits, overlays: Sequence[str]) -> Counted:
    """Read an archive through; `Refused` unless an instance would take it. Blocks.

    `overlays` are the directories that there are for what is in it. Without any it is not known
    which there will be: then only names, sizes and the archive itself are judged.
    """
    file = incoming.reopen()
    try:
        source = Source(Inflater(partial(os.read, file, _PIECE)).piece)
        reader = Reader(source, limits.entries, limits.content)
        targets = {_path(overlay): Sketch(source, reader.imply) for overlay in overlays}
        entries = Entries(source, reader, targets)
        while (found := reader.next()) is not None:
            entries.place(*found)
        reader.finish()
    except BadArchive as bad:
        if bad.code == "too-large":
            raise Refused(413, "too-large", limits.told(bad.message)) from None
        raise Refused(
            422, "bad-archive", f"this is not a gzip tar of a snapshot: {bad.message}"
        ) from None
    finally:
        os.close(file)
    if overlays and not entries.placed:
        wanted = " or ".join(f"{overlay.strip('/')}/" for overlay in overlays)
        raise Refused(
            422,
            "nothing-to-restore",
            f"none of the archive's {reader.entries} entries is in an overlay directory of the"
            f" workload: their names must begin with {wanted}",
        )
    return Counted(reader.entries, reader.content)


def _path(overlay: str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(overlay.strip("/")).split(b"/"))
