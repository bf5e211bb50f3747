"""Worker processes: started one by one, or forked from a process that is kept for it.

Workers().take() ─► a new Python ─► Child
Workers(zygote=True).take() ─► forking.py, once that is there ─► a fork of it ─► Child

Half of a small restore is a Python that starts. Where many instances share one process, another
that workers are forked from costs little; an agent of its own, in its container, keeps none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.forking import PIECE, NotForked, Zygote

__all__ = ["EACH_BY_ITSELF", "PIECE", "Worker", "Workers"]

log = logging.getLogger(__name__)

PAUSE = 0.5  # seconds until a zygote is made: not in the middle of what needs the processors now


class Worker(Protocol):
    """A running worker, wherever it came from."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    @property
    def stderr(self) -> asyncio.StreamReader | None: ...
    @property
    def returncode(self) -> int | None: ...
    def kill(self) -> None: ...
    async def wait(self) -> int: ...


class Workers:
    """Where workers come from. Bound to the event loop that uses it first."""

    def __init__(self, *, zygote: bool = False) -> None:
        self._keeps = zygote
        self._zygote: Zygote | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._making: asyncio.Task[None] | None = None

    async def take(self) -> Worker:
        """Return a worker that waits for its job."""
        if self._zygote is not None:
            try:
                return await self._zygote.fork()
            except NotForked as error:
                log.warning("an archive worker is started by itself: %s", error)
        await self._prepare_anew()
        return await _start()

    def prepare(self) -> None:
        """Have a zygote soon, if one is to be kept."""
        if self._keeps and self._timer is None and self._making is None and self._zygote is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._make)

    async def close(self) -> None:
        """Keep nothing any more."""
        self._keeps = False
        if self._timer is not None:
            self._timer.cancel()
        if self._making is not None:
            await asyncio.gather(self._making, return_exceptions=True)
        if self._zygote is not None:
            await self._zygote.close()

    async def _prepare_anew(self) -> None:
        """Prepare; a zygote that has died is put away first."""
        zygote = self._zygote
        if zygote is not None and zygote.died:
            self._zygote = None
            await zygote.close()
        self.prepare()

    def _make(self) -> None:
        self._timer = None
        self._making = asyncio.create_task(self._keep(), name="zygote of the archive workers")

    async def _keep(self) -> None:
        try:
            self._zygote = await Zygote.start(_command("zygote"))
        except NotForked as error:
            log.warning("archive workers are started one by one: %s", error)
        finally:
            self._making = None


EACH_BY_ITSELF = Workers()


async def _start() -> asyncio.subprocess.Process:
    """Start a worker. It is killed when the thread that runs this loop ends."""
    return await asyncio.create_subprocess_exec(
        *_command("worker"), str(os.getpid()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=PIECE,
        env={"LC_ALL": "C.UTF-8"},
        cwd="/",
        start_new_session=True,  # a Ctrl-C in a terminal is not for it
    )  # fmt: skip


@cache
def _command(module: str) -> tuple[str, ...]:
    """Return how to run a module: without `site`, which would cost more than all the rest."""
    found = find_spec("isal")
    if found is None or found.origin is None:
        raise Failed("not-installed", "the Python package isal is not installed")
    ours = Path(__file__).resolve().parents[3]
    paths = [str(ours), str(Path(found.origin).resolve().parents[1])]
    program = (
        f"import sys; sys.path += {paths!r}; "
        f"from boilerhouse.platform.archive.{module} import main; main(*sys.argv[1:])"
    )
    return sys.executable, "-I", "-S", "-c", program
