"""Emptying overlays: everything below them goes, they stay, and no link is followed."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.files.descent import OPEN_DIRECTORY
from boilerhouse.platform.files.removal import NotRemoved, remove_below, shortened


async def empty(overlays: Mapping[str, Path]) -> None:
    """Remove everything below the overlay directories; `Failed` names what cannot be removed."""
    await asyncio.to_thread(_empty_all, overlays)


def _empty_all(overlays: Mapping[str, Path]) -> None:
    for path, where in overlays.items():
        _empty(path.strip("/"), where)


def _empty(path: str, where: Path) -> None:
    mode = where.lstat().st_mode
    top = os.open(where, OPEN_DIRECTORY)
    try:
        remove_below(top)
        os.fchmod(top, stat.S_IMODE(mode))
    except NotRemoved as error:
        what = shortened([path, *error.where])
        words = f"{what} cannot be removed: {error.strerror}"
        raise Failed("not-emptied", words) from error
    finally:
        os.close(top)
