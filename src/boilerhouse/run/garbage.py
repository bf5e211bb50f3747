"""Run the cyclic garbage collector rarely, and only between requests.

collect_seldom() ─► collect_when_quiet(way) ─► enough is there ─► nobody waits ─► a look at all

What is made here is kept, or dies alone, but for some hundred objects of each instance that has
ended. A look takes a microsecond for every object that there is, in which nobody is answered: with
two hundred instances as long as fifty claims take. So Python does not look by itself, neither at
the young nor at all; one look is made when it is worth it, in a pause. Only under a load that never
pauses is it made anyway, so that memory is bounded.
"""

from __future__ import annotations

import asyncio
import gc
import os
from functools import cache

from boilerhouse.platform.loop.priority import Gate

OBJECTS = 100_000  # more than after the last look make the next one worth it,
MEMORY = 64 << 20  # or so many bytes more: a circle of few objects may hold large ones;
SHARE = 4  # in either case no less than this part of what was left
TOO_MUCH = 4  # times as many are not put up with, whoever waits
PERIOD = 0.25  # seconds
PATIENCE = 60.0  # seconds for which a pause is waited for

_PAGE = os.sysconf("SC_PAGE_SIZE")


def collect_seldom() -> None:
    """Leave looking for circles to `collect_when_quiet`."""
    gc.disable()


async def collect_when_quiet(gate: Gate, stopping: asyncio.Event) -> None:
    """Look for circles when it is worth it and nobody waits, until `stopping`."""
    loop = asyncio.get_running_loop()
    gc.freeze()  # what a start makes is kept: it need never be looked at
    kept, memory = 0, resident()
    worth_since: float | None = None
    while not await _waited(stopping, PERIOD):
        made = gc.get_count()[0]  # and not gone
        worth = max(
            made / max(OBJECTS, kept // SHARE),
            (resident() - memory) / max(MEMORY, memory // SHARE),
        )
        if worth < 1:
            worth_since = None
            continue
        if worth_since is None:
            worth_since = loop.time()
        if gate.is_quiet or worth >= TOO_MUCH or loop.time() - worth_since >= PATIENCE:
            gc.collect()
            kept, memory = len(gc.get_objects()), resident()


def resident() -> int:
    """Return how many bytes of memory this process has."""
    return int(os.pread(_statm(), 256, 0).split()[1]) * _PAGE


@cache
def _statm() -> int:
    """Open it once: later there may be no descriptor left to do so."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


async def _waited(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait; return at once, and whether, it is time to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True
