"""A token bucket for the small messages of one connection.

message ─► spend ─► tokens left: at once
                └─► none left: the connection waits, and all others have the event loop

What a message costs the event loop does not depend on its size alone: a million frames of one byte
take as long as gigabytes. Bytes are bounded by flow control; this bounds how many pieces they come
in.
"""

from __future__ import annotations

import asyncio


class Pace:
    """Lets `per_second` messages through, after a burst of as many as come in `BURST` seconds."""

    BURST = 1.0

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._most = self._tokens = per_second * self.BURST
        self._since = asyncio.get_running_loop().time()

    async def spend(self, count: int = 1) -> None:
        """Account for so many messages; wait if they come too fast."""
        wait = self.owed(count)
        if wait > 0:
            await asyncio.sleep(wait)

    def owed(self, count: int = 1) -> float:
        """Account for so many messages; return the seconds to wait before the next."""
        self._tokens -= count
        if self._tokens >= 0:  # the clock is asked only where it matters
            return 0.0
        now = asyncio.get_running_loop().time()
        gained = (now - self._since) * self._rate
        self._tokens = min(self._most, self._tokens + count + gained) - count
        self._since = now
        return max(0.0, -self._tokens / self._rate)
