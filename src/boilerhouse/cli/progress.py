"""How far a transfer has come: a bar on the terminal, and nothing anywhere else.

pieces ─► shown ─► the same pieces, counted on stderr
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator


def shown(pieces: Iterable[bytes], what: str, total: int | None) -> Iterator[bytes]:
    """Pass pieces on and show how many have come; only people are shown anything.

    A `total` of None is not known: then there is no end to draw. NO_COLOR is honoured.
    """
    if not sys.stderr.isatty():
        yield from pieces
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        for piece in pieces:
            progress.update(task, advance=len(piece))
            yield piece
