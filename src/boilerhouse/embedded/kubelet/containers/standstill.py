"""While a tenant is halted, no container of it begins a life.

agent ─► Standstill.begin ─► ContainerLoop waits ─► Standstill.end

A tenant that has crashed is started again after its back-off. In the middle of a save that would
put changes into half a snapshot; in the middle of a restore, a program onto half its data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Standstill:
    """Of the sandboxed containers of one Pod."""

    def __init__(self) -> None:
        self._off = asyncio.Event()
        self._off.set()
        self._starting = 0
        self._none_starts = asyncio.Event()
        self._none_starts.set()

    @property
    def on(self) -> bool:
        return not self._off.is_set()

    async def begin(self) -> None:
        """Let nobody start; returns when starts under way have come to their end."""
        self._off.clear()
        await self._none_starts.wait()

    def end(self) -> None:
        self._off.set()

    async def over(self, stopping: asyncio.Event) -> None:
        """Wait until containers may start, or until this one need not any more."""
        if not self.on or stopping.is_set():
            return
        waiting = {asyncio.create_task(event.wait()) for event in (self._off, stopping)}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    @contextmanager
    def start(self) -> Iterator[None]:
        """Be seen as starting. Look at `on` before."""
        self._starting += 1
        self._none_starts.clear()
        try:
            yield
        finally:
            self._starting -= 1
            if not self._starting:
                self._none_starts.set()
