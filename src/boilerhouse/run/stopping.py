"""How a server is told to stop: once is a request, twice is an order."""

from __future__ import annotations

import asyncio
import os
import signal

from boilerhouse.run import logs
from boilerhouse.run.outlet import complain

# Seconds in which signals are one: make and the terminal may both pass on the same Ctrl-C.
ONE_CTRL_C = 0.3


def stop_on_signals() -> asyncio.Event:
    """Return what is set when we are told to stop; a second Ctrl-C does not wait."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    since = 0.0

    def asked() -> None:
        nonlocal since
        if not stop.is_set():
            since = loop.time()
        stop.set()

    def interrupted() -> None:
        if stop.is_set() and loop.time() - since > ONE_CTRL_C:
            complain("not waiting any longer")
            logs.drain()
            # Nothing acknowledged is lost by this: every answer was on disk before it left.
            os._exit(130)
        asked()

    loop.add_signal_handler(signal.SIGTERM, asked)
    loop.add_signal_handler(signal.SIGINT, interrupted)
    return stop
