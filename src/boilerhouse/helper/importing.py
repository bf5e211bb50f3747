"""Could what somebody uploads be restored? Looked at before it becomes a version.

Incoming (settled) ─► the reader that restores use ─► Counted, or Refused
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from boilerhouse.agent.archive.failures import BadArchive
from boilerhouse.agent.archive.header import BLOCK
from boilerhouse.agent.archive.model import Limits
from boilerhouse.agent.archive.reader import Reader
from boilerhouse.agent.archive.source import Inflater, Source
from boilerhouse.agent.protocol import Refused
from boilerhouse.helper.store.volume import Incoming

_PIECE = 256 << 10


@dataclass(frozen=True, slots=True)
class Counted:
    """What is in an archive."""

    entries: int
    content: int


def inspect(incoming: Incoming, limits: Limits) -> Counted:
    """Read an archive through; `Refused` unless an instance would take it. Blocks.

    Whether there are overlay directories for what is in it is not known here.
    """
    file = incoming.reopen()
    try:
        source = Source(Inflater(partial(os.read, file, _PIECE)).piece)
        reader = Reader(source, limits.entries, limits.content, limits.name)
        while (found := reader.next()) is not None:
            member, _, layout = found
            source.skip(layout[2] + -member.size % BLOCK)
        reader.finish()
    except BadArchive as bad:
        if bad.code == "too-large":
            raise Refused(413, "too-large", limits.told(bad.message)) from None
        raise Refused(
            422, "bad-archive", f"this is not an archive of a snapshot: {bad.message}"
        ) from None
    finally:
        os.close(file)
    return Counted(reader.entries, reader.content)
