"""Kubernetes Events: what happened to an object, for `kubectl describe`.

transition written ─► Events.tell (never waits) ─► a bounded queue ─► correlation.py ─► API

Tellings of the same are one Event with a count.

An Event is a courtesy. It is told after the write that it is about, it never delays or fails a
pass, it gives way to what somebody waits for (`priority.py`), and when the API server is slow the
oldest ones are dropped and counted in the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal

import msgspec
import structlog

from boilerhouse.core.clock import Clock, new_uid, rfc3339
from boilerhouse.core.supervision import supervised
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.correlation import About, Correlator, New, Repeated
from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import EVENTS, Resource
from boilerhouse.platform.kube.status import ApiError, NotFound
from boilerhouse.platform.loop.priority import Gate

log = structlog.get_logger(__name__)

WAITING = 1000
MESSAGE_LIMIT = 1024  # the API server refuses longer messages

Type = Literal["Normal", "Warning"]


class _Told(msgspec.Struct, frozen=True):
    """What was told, and when; it is spelled out when it is sent."""

    since: float
    at: datetime
    resource: Resource[Any]
    item: Object
    reason: str
    message: str
    type: Type


class Events:
    """Tells Events as `component`. Start it with `async with events.running():`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        component: str = "boilerhouse",
        *,
        gate: Gate | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._gate = gate or Gate()
        self._waiting: deque[_Told] = deque(maxlen=WAITING)
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._sending = False
        self._dropped = 0
        self._filtered = 0
        self._correlator = Correlator()

    def tell(
        self,
        resource: Resource[Any],
        item: Object,
        reason: str,
        message: str,
        *,
        type: Type = "Normal",  # noqa: A002  the field's name on the wire
    ) -> None:
        """Note an Event about an object; returns at once."""
        if len(self._waiting) == WAITING:
            self._dropped += 1
        since, now = self._clock.monotonic(), self._clock.now()
        self._waiting.append(_Told(since, now, resource, item, reason, message, type))
        self._wake.set()

    async def flushed(self) -> None:
        """Wait until everything told so far was sent, or lost."""
        while self._waiting or self._sending:
            self._idle.clear()
            await self._idle.wait()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Events]:
        """Send what is told while the context lasts, and at its end what still waits."""
        task = asyncio.create_task(supervised("events", self._send_for_ever), name="events")
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait({task})
            try:
                async with asyncio.timeout(2):
                    await self._send_all()
            except TimeoutError:
                log.warning("events.left_behind", count=len(self._waiting))

    async def _send_for_ever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._send_all(self._gate)

    async def _send_all(self, gate: Gate | None = None) -> None:
        while self._waiting:
            if gate is not None:
                await gate.turn(self._clock.monotonic() - self._waiting[0].since)
            told = self._waiting.popleft()
            self._sending = True
            try:
                with self._gate.background():
                    await self._send(told)
            except ApiError as error:
                log.warning("events.lost", reason=told.reason, error=str(error))
            finally:
                self._sending = False
        self._idle.set()
        if self._dropped:
            log.warning("events.dropped", count=self._dropped)
            self._dropped = 0
        if self._filtered:
            log.debug("events.filtered", count=self._filtered)
            self._filtered = 0

    async def _send(self, told: _Told) -> None:
        """Create an Event, or count it with one that says the same; some are too many."""
        meta, kind = told.item.metadata, told.resource.kind
        about = About(kind, meta.namespace, meta.name, meta.uid, told.type, told.reason)
        name = f"{meta.name}.{new_uid()[:13]}"
        decided = self._correlator.decide(about, told.message[:MESSAGE_LIMIT], name, told.at)
        if decided is None:
            self._filtered += 1
            return
        if isinstance(decided, New):
            await self._client.create(EVENTS, self._event(told, decided, 1, told.at))
            return
        patch = {
            "count": decided.count,
            "lastTimestamp": rfc3339(told.at),
            "message": decided.message[:MESSAGE_LIMIT],
        }
        where = meta.namespace or self._client.namespace
        try:
            await self._client.merge_patch(EVENTS, decided.name, patch, namespace=where)
        except NotFound:  # it has expired, or was deleted
            made = self._event(told, decided, decided.count, decided.first)
            await self._client.create(EVENTS, made)

    def _event(
        self, told: _Told, decided: New | Repeated, count: int, first: datetime
    ) -> dict[str, Any]:
        meta, resource = told.item.metadata, told.resource
        return {
            "metadata": {
                "name": decided.name,
                "namespace": meta.namespace or self._client.namespace,
            },
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "type": told.type,
            "reason": told.reason,
            "message": decided.message[:MESSAGE_LIMIT],
            "source": {"component": self._component},
            "firstTimestamp": rfc3339(first),
            "lastTimestamp": rfc3339(told.at),
            "count": count,
        }
