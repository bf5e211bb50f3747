"""Events about Pods: what people see in `kubectl describe`. Best effort, and never in the way.

    loops, scheduler ─► Events.say ─► a bounded queue ─► API

The same words about the same Pod again only raise a count.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from boilerhouse.core.clock import Clock, rfc3339, token
from boilerhouse.kube.client import Client
from boilerhouse.kube.kinds import ObjectMeta
from boilerhouse.kube.resources import EVENTS
from boilerhouse.kube.status import ApiError, NotFound

_WAITING = 1000
_REMEMBERED = 2000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Said:
    pod: ObjectMeta
    kind: str  # Normal or Warning
    reason: str
    message: str
    component: str


class Events:
    """`run` it beside whoever says something."""

    def __init__(self, client: Client, clock: Clock, host: str) -> None:
        self._client = client
        self._clock = clock
        self._host = host
        self._queue: asyncio.Queue[_Said] = asyncio.Queue(_WAITING)
        self._known: OrderedDict[tuple[str, str, str], tuple[str, int]] = OrderedDict()

    def say(
        self, pod: ObjectMeta, kind: str, reason: str, message: str, component: str = "kubelet"
    ) -> None:
        if not self._queue.full():
            self._queue.put_nowait(_Said(pod, kind, reason, message[:1024], component))

    async def run(self) -> None:
        while True:
            said = await self._queue.get()
            try:
                await self._write(said)
            except ApiError as error:
                log.debug("kubelet.event_lost", reason=said.reason, error=str(error))

    async def _write(self, said: _Said) -> None:
        now = rfc3339(self._clock.now())
        key = (said.pod.uid, said.reason, said.message)
        name, count = self._known.get(key, ("", 0))
        if name:
            try:
                await self._client.merge_patch(
                    EVENTS,
                    name,
                    {"count": count + 1, "lastTimestamp": now},
                    namespace=said.pod.namespace,
                )
                self._known[key] = (name, count + 1)
                return
            except NotFound:  # expired meanwhile
                del self._known[key]
        name = f"{said.pod.name}.{token(8).lower().strip('-_').replace('_', '0')}"
        body = {
            "metadata": {"name": name, "namespace": said.pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": said.pod.name,
                "namespace": said.pod.namespace,
                "uid": said.pod.uid,
            },
            "type": said.kind,
            "reason": said.reason,
            "message": said.message,
            "source": {"component": said.component, "host": self._host},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(EVENTS, body)
        self._known[key] = (name, 1)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
