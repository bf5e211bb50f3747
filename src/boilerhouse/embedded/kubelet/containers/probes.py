"""When a container is asked, and what its answers mean.

    Check ─► Probe ─► succeeds() (startup) | follow() (readiness) | fails() (liveness)

Until the first success questions come every 5 ms, since an instance is waited for; the longer it
takes, the rarer: a twentieth of the time waited so far, but never rarer than the period. A built-in
container says when it is worth asking, and is asked then. What is asked in between does not count
as a failure: thresholds are in periods, as they were written. So are reports of failures: at most
one a period, and none of a container that has only just started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from boilerhouse.embedded.kubelet.containers.checks import Check

EAGER = 0.005
EAGER_COMMAND = 0.050  # a command is a process each time
EAGER_WITH_NEWS = 0.100  # who says when it is worth asking
_SHARE = 20
_SELDOM = 30.0  # seconds between questions to a container that says when it is worth asking
_STARTS_IN = 1.0  # seconds in which a program may well not answer yet


@dataclass(frozen=True, slots=True)
class Timing:
    initial_delay: float = 0.0
    period: float = 10.0
    successes: int = 1
    failures: int = 3
    eager: float = EAGER

    @classmethod
    def of(cls, probe: Mapping[str, Any], *, news: bool = False) -> Timing:
        """Read a probe; `news`: the container says when its answer has changed."""
        eager = EAGER_COMMAND if "exec" in probe else EAGER
        return cls(
            float(probe.get("initialDelaySeconds", 0)),
            float(probe.get("periodSeconds", 10)),
            int(probe.get("successThreshold", 1)),
            int(probe.get("failureThreshold", 3)),
            EAGER_WITH_NEWS if news else eager,
        )

    def pause(self, waited: float) -> float:
        """Return how long to wait after a failure that came before any success."""
        return min(self.period, max(self.eager, waited / _SHARE))


class Probe:
    """One probe of one running container."""

    def __init__(
        self,
        timing: Timing,
        check: Check,
        news: asyncio.Event | None = None,
        failing: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._timing = timing
        self._check = check
        self._news = news or asyncio.Event()
        self._failing = failing  # told why, as often as people want to know
        self._quiet_until = 0.0
        self.why = ""  # of the last failure

    async def succeeds(self, not_yet: Callable[[], None] = lambda: None) -> bool:
        """Wait for the first success; False after as many failures as are allowed.

        `not_yet` is called if the first answer is a failure.
        """
        timing = self._timing
        await asyncio.sleep(timing.initial_delay)
        time = asyncio.get_running_loop().time
        began = counted = time()
        self._quiet_until = began + min(timing.period, _STARTS_IN)
        failures = 0
        while True:
            self._news.clear()
            if await self._ask():
                return True
            now = time()
            if failures == 0:
                not_yet()
            if failures == 0 or now - counted >= timing.period:
                failures += 1
                counted = now
                if failures >= timing.failures:
                    return False
            self._report(now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timing.pause(now - began)):
                    await self._news.wait()

    async def follow(self, changed: Callable[[bool], None]) -> None:
        """Tell of readiness as it comes and goes, for ever."""
        timing = self._timing
        await asyncio.sleep(timing.initial_delay)
        time = asyncio.get_running_loop().time
        began = time()
        self._quiet_until = began + min(timing.period, _STARTS_IN)
        ready, eager = False, True
        row = 0  # answers in a row that speak against what is said now
        while True:
            answered = await self._ask()
            if not answered:
                self._report(time())
            row = row + 1 if answered != ready else 0
            eager = eager and not answered
            if row and row >= (timing.failures if ready else timing.successes):
                ready, row = not ready, 0
                changed(ready)
            await asyncio.sleep(timing.pause(time() - began) if eager else timing.period)

    async def follow_news(self, changed: Callable[[bool], None]) -> None:
        """Tell of the readiness of a container that says when its answer may have changed.

        It begins ready: it has just answered that it started. Asked when it says so, and seldom.
        """
        timing = self._timing
        ready, row = True, 0
        while True:
            pause = timing.period if row else max(timing.period, _SELDOM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()
            self._news.clear()
            row = row + 1 if await self._ask() != ready else 0
            if row and row >= (timing.failures if ready else timing.successes):
                ready, row = not ready, 0
                changed(ready)

    async def fails(self) -> None:
        """Return when the container has failed to answer too often in a row."""
        timing = self._timing
        await asyncio.sleep(timing.initial_delay)
        time = asyncio.get_running_loop().time
        row = 0
        while row < timing.failures:
            row = 0 if await self._ask() else row + 1
            if row < timing.failures:
                if row:
                    self._report(time())
                await asyncio.sleep(timing.period)

    def _report(self, now: float) -> None:
        """Tell of a failure, unless one was told in this period."""
        if now >= self._quiet_until:
            self._quiet_until = now + self._timing.period * 0.9  # the next one is not quite on time
            self._failing(self.why)

    async def _ask(self) -> bool:
        problem = await self._check()
        if problem is not None:
            self.why = problem
        return problem is None
