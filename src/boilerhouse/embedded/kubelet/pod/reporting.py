"""A Pod's status on its way to the API: written when it changed, many changes at once.

    loops ─► changed() ─► Reporter ─► pod_status() ─► PATCH …/status

What somebody waits for (Ready, an end, a refusal) is written at once; the small steps on the way
there are gathered for a moment. One write is under way at a time; what changes meanwhile is in the
next. `turn` says when to write (turns.py): what changes until then is in the same write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import structlog

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.backoff import Backoff
from boilerhouse.embedded.kubelet.objects.status import PodFacts, clearing, pod_status
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, Conflict, Invalid, NotFound
from boilerhouse.platform.kube.wire import STRATEGIC_PATCH

Body = Mapping[str, Any]
_GATHER = 0.1
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 10.0

log = structlog.get_logger(__name__)


class Reporter:
    """Writes one Pod's status; `run` it as long as the Pod is there."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pod: tuple[str, str, str],
        before: Body,
        facts: Callable[[], PodFacts],
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace, self._name, self._uid = pod
        self._before = before
        self._facts = facts
        self._turn = turn
        self._written: Body | None = None
        self._dirty = asyncio.Event()
        self._urgent = asyncio.Event()
        self._silent = False

    def silence(self) -> None:
        """Write nothing more: the Pod is gone, or we are leaving and it stays as it was."""
        self._silent = True
        self._dirty.clear()

    def changed(self, *, urgent: bool = False) -> None:
        if self._silent:
            return
        self._dirty.set()
        if urgent:
            self._urgent.set()

    async def run(self) -> None:
        """Write until the Pod is gone from the API."""
        while True:
            await self._dirty.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GATHER):
                    await self._urgent.wait()
            async with self._turn():
                self._dirty.clear()
                self._urgent.clear()
                there = self._silent or await self._write()
            if not there:
                self.silence()
                return

    async def _write(self) -> bool:
        """Write what is true now, however often it takes; False if there is no such Pod."""
        patience = Backoff(first=_FIRST_DELAY, longest=_LONGEST_DELAY)
        while True:
            before = self._written or self._before
            status = pod_status(self._facts(), before, self._clock.now())
            if status == self._written:
                return True
            patch = {"metadata": {"uid": self._uid}, "status": clearing(status, before)}
            try:
                await self._client.raw(
                    "PATCH",
                    PODS.path(self._namespace, self._name, "status"),
                    patch,
                    content_type=STRATEGIC_PATCH,
                )
            except (NotFound, Conflict):
                return False
            except Invalid as error:
                if "metadata.uid" in str(error):
                    return False  # another Pod has that name by now
                log.error("kubelet.status_refused", pod=self._name, error=str(error))
                return True
            except ApiError as error:
                log.warning("kubelet.status_unwritten", pod=self._name, error=str(error))
                await asyncio.sleep(patience.again())
            else:
                self._written = status
                return True
