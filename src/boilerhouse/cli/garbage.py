"""Circles of dead objects are looked for when nobody waits.

collect_seldom() ─► collect_when_quiet(way) ─► the young between claims, all when none comes

Most of what is made here is kept, or dies alone. With Python's defaults a third of a burst of
claims is spent looking for circles, and looking at everything stops the event loop for as long as
several claims take, in the middle of whatever goes on. Left to itself Python looks only when very
much was made at a stretch, so that memory is bounded under a load that never pauses.
"""

from __future__ import annotations

import asyncio
import gc

from boilerhouse.loop.rightofway import RightOfWay

AT_A_STRETCH = 200_000  # objects made, and not gone, after which Python looks by itself
YOUNG = 2_000  # objects that are worth a look in a pause
ENOUGH = 10  # looks at the younger after which the older are worth one
PERIOD = 0.25  # seconds
PATIENCE = 60.0  # seconds for which everybody is waited for before everything is looked at


def collect_seldom() -> None:
    """Leave looking for circles to quiet moments, as far as memory allows."""
    gc.set_threshold(AT_A_STRETCH, ENOUGH, ENOUGH)


async def collect_when_quiet(way: RightOfWay, stopping: asyncio.Event) -> None:
    """Look for circles when nobody waits, until `stopping`."""
    loop = asyncio.get_running_loop()
    since = loop.time()  # the last look at the older
    while not await _waited(stopping, PERIOD):
        generation = _worth_a_look()
        if generation:
            if way.is_quiet or loop.time() - since >= PATIENCE:
                gc.collect(generation)
                since = loop.time()
        elif generation == 0 and way.is_clear:
            gc.collect(0)


def _worth_a_look() -> int | None:
    """Return the oldest generation of which enough was made; None if there is none."""
    young, middle, old = gc.get_count()
    if middle >= ENOUGH:
        return 2 if old >= ENOUGH else 1
    return 0 if young >= YOUNG else None


async def _waited(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait; return at once, and whether, it is time to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True
