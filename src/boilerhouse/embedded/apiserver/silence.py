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

from boilerhouse.platform.kube.status import Unavailable


def bounded(chunks: AsyncIterator[bytes], longest: float | None) -> AsyncIterator[bytes]:
    """Pass on what comes; `Unavailable` if nothing does for `longest` seconds, None is for ever.

    Only waiting counts: how long the reader takes for a piece is its own affair.
    """
    return chunks if longest is None else _Bounded(chunks, longest)


class _Bounded:
    """Not a generator: pieces are many, and each of them would wake one more."""

    def __init__(self, chunks: AsyncIterator[bytes], longest: float) -> None:
        self._chunks = chunks
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None  # who waits
        self._since = 0.0
        self._broken = False
        self._cancelled = 0  # how often somebody else had told the task to end
        self._timer = self._loop.call_later(longest, self._ring)

    def __aiter__(self) -> _Bounded:
        return self

    async def __anext__(self) -> bytes:
        self._task = asyncio.current_task()
        self._since = self._loop.time()
        try:
            return await anext(self._chunks)
        except BaseException as end:
            self._timer.cancel()
            if self._has_given_up() and isinstance(end, asyncio.CancelledError):
                raise Unavailable(f"nothing was heard for {self._longest} s") from None
            raise
        finally:
            self._task = None

    async def aclose(self) -> None:
        """Bound nothing more; the chunks are closed by whoever has made them."""
        self._timer.cancel()

    def _has_given_up(self) -> bool:
        """Whether it is us who told the task to end, and nobody else."""
        task = self._task
        return self._broken and task is not None and task.uncancel() <= self._cancelled

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
