"""Circles of dead objects: young ones are looked for as they come, all of them when nobody waits.

collect_seldom() ─► collect_when_quiet(way) ─► every while, in a quiet moment: gc.collect()

Most of what is made here is kept, or dies alone. With Python's defaults a third of a burst of
claims is spent looking for circles, and looking at everything stops the event loop for as long as
several claims take, in the middle of whatever goes on.
"""

from __future__ import annotations

import asyncio
import gc

from boilerhouse.loop.rightofway import RightOfWay

NEVER = (1 << 31) - 1  # the largest threshold there is
PERIOD = 10.0  # seconds between two looks at whether it is time
PATIENCE = 60.0  # seconds for which a quiet moment is waited for
WORTH_IT = 10  # collections of the middle-aged since the last look at everything: a million objects


def collect_seldom() -> None:
    """Look for circles among the young less often, and among all only when asked to."""
    gc.set_threshold(10_000, 10, NEVER)


async def collect_when_quiet(way: RightOfWay, stopping: asyncio.Event) -> None:
    """Look at everything once enough has been made, when nobody waits; until `stopping`."""
    while not await _waited(stopping, PERIOD):
        if gc.get_count()[2] < WORTH_IT:
            continue
        loop = asyncio.get_running_loop()
        latest = loop.time() + PATIENCE
        while not way.is_clear and loop.time() < latest:
            if await _waited(stopping, 0.05):
                return
        gc.collect()


async def _waited(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait; return at once, and whether, it is time to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True
