"""Worker processes, started when they are needed, or one kept ready before that.

Workers(spare=True).take() ─► the one that waits, and a moment later another ─► Child

Half of a small restore is a Python that starts. Where many instances share one process, one worker
that has started already costs little; an agent of its own, in its container, keeps none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from boilerhouse.agent.archive.failures import Failed

PIECE = 256 << 10
PAUSE = 0.5  # seconds until the next one is made ready: not in the middle of what needed the last


class Workers:
    """Where workers come from. Bound to the event loop that uses it first."""

    def __init__(self, *, spare: bool = False) -> None:
        self._keeps = spare
        self._spare: asyncio.subprocess.Process | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._making: asyncio.Task[None] | None = None

    async def take(self) -> asyncio.subprocess.Process:
        """Return a worker that waits for its job."""
        spare, self._spare = self._spare, None
        self.prepare()
        if spare is not None and spare.returncode is None:
            return spare
        return await _start(ready=False)

    def prepare(self) -> None:
        """Have one ready soon, if one is to be kept."""
        if self._keeps and self._timer is None and self._making is None and self._spare is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._make)

    async def close(self) -> None:
        """Keep none any more."""
        self._keeps = False
        if self._timer is not None:
            self._timer.cancel()
        if self._making is not None:
            await asyncio.gather(self._making, return_exceptions=True)
        if self._spare is not None:
            with contextlib.suppress(ProcessLookupError):
                self._spare.kill()
            await self._spare.communicate()

    def _make(self) -> None:
        self._timer = None
        self._making = asyncio.create_task(self._keep(), name="spare archive worker")

    async def _keep(self) -> None:
        try:
            self._spare = await _start(ready=True)
        finally:
            self._making = None


EACH_BY_ITSELF = Workers()


async def _start(*, ready: bool) -> asyncio.subprocess.Process:
    """Start a worker. It is killed when the thread that runs this loop ends."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _command(), str(os.getpid()), "ready" if ready else "",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=PIECE,
        env={"LC_ALL": "C.UTF-8"},
        cwd="/",
    )  # fmt: skip


@cache
def _command() -> str:
    """Return the worker's program: without `site`, which would cost more than all the rest."""
    found = find_spec("isal")
    if found is None or found.origin is None:
        raise Failed("not-installed", "the Python package isal is not installed")
    ours = Path(__file__).resolve().parents[3]
    paths = [str(ours), str(Path(found.origin).resolve().parents[1])]
    return (
        f"import sys; sys.path += {paths!r}; "
        "from boilerhouse.agent.archive.worker import main; main(*sys.argv[1:])"
    )
