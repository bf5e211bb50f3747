"""Supervision of long-lived tasks: one that dies is logged, seen in health and started again.

    owner ─► supervised(name, run) ─► run() ─► died? ─► complaints(), back-off ─► run() …

asyncio says nothing of a task that died until it is collected as garbage, and a controller, a
scheduler or a disk monitor that is gone looks exactly like one with nothing to do. So whatever is
meant to run for as long as the process does goes through `supervised`; the task itself still has
an owner, which cancels it and waits for it. Work with an end (a request, a save) is awaited by the
code that began it instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from boilerhouse.core.backoff import backoff

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 60.0
# A task that has lived for so long after its death is well again.
RECOVERED_SECONDS = 10.0

_failing: dict[object, str] = {}


def complaints() -> list[str]:
    """Name the supervised tasks of this process that died a short while ago, and of what."""
    return sorted(_failing.values())


async def supervised(
    name: str,
    run: Callable[[], Awaitable[None]],
    stopping: asyncio.Event | None = None,
    *,
    may_end: bool = False,
) -> None:
    """Run a coroutine function for ever: again, after a back-off, whenever it raises or returns.

    With `stopping` it may return once that is set, and is not started again then; with `may_end`
    whenever it likes.
    """
    loop = asyncio.get_running_loop()
    key = object()
    deaths = 0
    recovery: asyncio.TimerHandle | None = None

    def recovered() -> None:
        nonlocal deaths
        deaths = 0
        _failing.pop(key, None)
        log.info("task.recovered: %s", name)

    try:
        while True:
            try:
                await run()
                if may_end or (stopping is not None and stopping.is_set()):
                    return
                raise RuntimeError("it ended although nothing told it to")
            except Exception as error:
                if recovery is not None:
                    recovery.cancel()
                delay = backoff(deaths, FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS)
                deaths += 1
                _failing[key] = f"{name} failed and is started again: {_said(error)}"
                log.exception("task.died: %s; again in %.1f s", name, delay)
            if stopping is not None and stopping.is_set():
                return
            await asyncio.sleep(delay)
            recovery = loop.call_later(RECOVERED_SECONDS, recovered)
    finally:
        _failing.pop(key, None)
        if recovery is not None:
            recovery.cancel()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
