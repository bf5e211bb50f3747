"""The next life of a container, made ready before the one before it has ended.

begin ─► prepare, beside everything else ─► take ─► Ready.start        after the end: a gate opens
                                        └─► forget: it is not needed after all

Most of a start is making a sandbox, and needs nothing that a restore changes: so it is made while
the files are unpacked. Optimisation only; callers fall back to the slow path: what could not be
made, or was killed meanwhile, is not there when it is taken, and the container starts as any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import structlog

from boilerhouse.embedded.kubelet.containers.launch import Launched
from boilerhouse.embedded.kubelet.objects.containerspec import Refused

Body = Mapping[str, Any]

log = structlog.get_logger(__name__)


class Ready(Protocol):
    """A life that only has to be let go."""

    @property
    def stands(self) -> bool: ...

    async def start(self) -> Launched:
        """Begin it; raises `Refused`."""
        ...

    async def discard(self) -> None:
        """End it, unless it has begun. May be repeated."""
        ...


Prepare = Callable[[Body, int], Awaitable[Ready | None]]  # None: this one cannot be made ready


class Standby:
    """At most one life of one container that stands by."""

    def __init__(self, prepare: Prepare | None) -> None:
        self._prepare = prepare
        self._life: tuple[Body, int] | None = None
        self._making: asyncio.Task[Ready | None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    def begin(self, container: Body, attempt: int) -> None:
        """Have this life ready soon, in place of any other; one that is there already stays."""
        if self._prepare is None or (self._life == (container, attempt) and self.expected):
            return
        self.forget()
        self._life = (container, attempt)
        self._making = asyncio.ensure_future(self._prepare(container, attempt))

    @property
    def expected(self) -> bool:
        """Whether it is ready, or being made."""
        return self._making is not None and (not self._making.done() or self._stands)

    @property
    def _stands(self) -> bool:
        made = _made(self._making)
        return made is not None and made.stands

    async def take(self, container: Body, attempt: int) -> Ready | None:
        """Return this life, which is the caller's now; None if there is none that can be begun."""
        making = self._making
        if making is None:
            return None
        if self._life == (container, attempt):
            await asyncio.wait({making})
        if self._making is not making:
            return None  # forgotten meanwhile
        if self._life != (container, attempt) or not self._stands:
            self.forget()
            return None
        self._life = self._making = None
        return _made(making)

    def forget(self) -> None:
        """Give up what is ready or being made; it ends beside everything else."""
        making, self._life, self._making = self._making, None, None
        if making is not None:
            leaving = asyncio.create_task(_end(making), name="standby ends")
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Give it up, and wait until it is gone."""
        self.forget()
        if self._leaving:
            await asyncio.wait(self._leaving)


def _made(making: asyncio.Task[Ready | None] | None) -> Ready | None:
    """Return what was made, if it was; why not is told by who would have been started with it."""
    if making is None or not making.done() or making.cancelled():
        return None
    return None if making.exception() is not None else making.result()


async def _end(making: asyncio.Task[Ready | None]) -> None:
    making.cancel()
    await asyncio.wait({making})
    if not making.cancelled() and (error := making.exception()) is not None:
        if not isinstance(error, Refused):  # a refusal is told when the container is started
            log.warning("kubelet.standby_failed", error=str(error))
        return
    made = _made(making)
    if made is not None:
        await made.discard()
