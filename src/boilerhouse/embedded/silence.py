"""How long a stream may say nothing: one timer for all of its pieces.

chunks ─► bounded ─► the same chunks, or Unavailable after too long a silence

Setting a timer for each piece costs more than handing the piece over, and nearly every piece of a
watch comes in time. So the timer is left alone: it looks, when it rings, since when there has been
silence, and is set again for what is left of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from boilerhouse.kube.status import Unavailable


async def bounded(chunks: AsyncIterator[bytes], longest: float | None) -> AsyncIterator[bytes]:
    """Pass on what comes; `Unavailable` if nothing does for `longest` seconds, None is for ever.

    Only waiting counts: how long the reader takes for a piece is its own affair.
    """
    if longest is None:
        async for piece in chunks:
            yield piece
        return
    silence = _Silence(longest)
    try:
        while True:
            try:
                with silence:
                    piece = await anext(chunks)
            except StopAsyncIteration:
                return
            yield piece
    finally:
        silence.end()


class _Silence:
    """A bound on each of many waits, one after another: `with silence:` is one of them."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None  # who waits
        self._since = 0.0
        self._broken = False
        self._cancelled = 0  # how often somebody else had told the task to end
        self._timer = self._loop.call_later(longest, self._ring)

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._since = self._loop.time()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if self._broken and task is not None:
            self._broken = False
            ours = task.uncancel() <= self._cancelled and kind is asyncio.CancelledError
            if ours:
                raise Unavailable(f"nothing was heard for {self._longest} s") from None

    def end(self) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        task = self._task
        left = self._longest  # nobody waits: the next wait is a new one
        if task is not None:
            left = self._since + self._longest - self._loop.time()
        if left > 0 or task is None:
            self._timer = self._loop.call_later(left, self._ring)
            return
        self._broken = True
        self._cancelled = task.cancelling()
        task.cancel()
