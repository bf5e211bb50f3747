"""Gives Pods that have no node the one there is, if there is room.

    Pods without a node (oldest first) ─► Ledger ─► binding | condition Unschedulable
    room appears ─► all of them again

While the disk is nearly full no Pod is placed but those that tolerate it, and our own.

Deciding and noting happen without an await in between, so two Pods never get the same room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.embedded.kubelet.node.nodeobject import DISK_PRESSURE, NODE
from boilerhouse.embedded.kubelet.objects.room import Ledger, requests, tolerates, unschedulable
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, Conflict, NotFound
from boilerhouse.platform.kube.wire import STRATEGIC_PATCH

_AGAIN = 1.0

log = structlog.get_logger(__name__)


class Scheduler:
    """`run` it; tell it of Pods without a node by `add`, of gone ones by `drop`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        ledger: Ledger,
        bound: Callable[[Dynamic], None],
        events: Events,
        ours: Callable[[Dynamic], bool],
    ) -> None:
        """`ours` tells the Pods that nothing works without, on whatever disk."""
        self.cordoned = False
        self.disk_pressure = False
        self._ours = ours
        self._client = client
        self._clock = clock
        self._ledger = ledger
        self._bound = bound
        self._events = events
        self._waiting: dict[str, Dynamic] = {}
        self._told: dict[str, str] = {}
        self._look = asyncio.Event()
        self._binding: set[asyncio.Task[None]] = set()

    def add(self, pod: Dynamic) -> None:
        """Note a Pod that has no node, or its newest state."""
        new = pod.metadata.uid not in self._waiting
        self._waiting[pod.metadata.uid] = pod
        if new:
            self._look.set()

    def drop(self, uid: str) -> None:
        """Forget a Pod: it has a node, or is gone."""
        self._waiting.pop(uid, None)
        self._told.pop(uid, None)

    def look(self) -> None:
        """Look again: there may be room now."""
        if self._waiting:
            self._look.set()

    async def run(self) -> None:
        try:
            while True:
                await self._look.wait()
                self._look.clear()
                for pod in sorted(self._waiting.values(), key=_age):
                    if pod.metadata.uid in self._waiting:
                        self._place(pod)
        finally:
            for task in self._binding:
                task.cancel()

    def _place(self, pod: Dynamic) -> None:
        wanted = requests(pod.spec)
        lacking = self._ledger.lacking(wanted)
        taint = DISK_PRESSURE if self._kept_away(pod) else ""
        if lacking or self.cordoned or taint:
            words = unschedulable(lacking, cordoned=self.cordoned, taint=taint)
            if self._told.get(pod.metadata.uid) != words:
                self._told[pod.metadata.uid] = words
                self._begin(self._refuse(pod, words))
            return
        self._ledger.give(pod.metadata.uid, wanted)
        self.drop(pod.metadata.uid)
        self._begin(self._bind(pod))

    def _kept_away(self, pod: Dynamic) -> bool:
        if not self.disk_pressure or self._ours(pod):
            return False
        return not tolerates(pod.spec, DISK_PRESSURE)

    def _begin(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]  # a coroutine
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def _bind(self, pod: Dynamic) -> None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "uid": meta.uid},
            "target": {"kind": "Node", "name": NODE},
        }
        path = PODS.path(meta.namespace, meta.name, "binding")
        try:
            await self._client.raw("POST", path, body)
        except (NotFound, Conflict):
            # Gone, or bound by somebody else: the watch tells.
            self._ledger.take_back(meta.uid)
            self._look.set()
        except ApiError as error:
            log.warning("scheduler.unbound", pod=meta.name, error=str(error))
            self._ledger.take_back(meta.uid)
            await asyncio.sleep(_AGAIN)
            self.add(pod)
        else:
            self._bound(pod)

    async def _refuse(self, pod: Dynamic, words: str) -> None:
        meta = pod.metadata
        self._events.tell(PODS, pod, "FailedScheduling", words, type="Warning")
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": words,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        path = PODS.path(meta.namespace, meta.name, "status")
        try:
            await self._client.raw("PATCH", path, patch, content_type=STRATEGIC_PATCH)
        except ApiError as error:
            log.debug("scheduler.untold", pod=meta.name, error=str(error))
            self._told.pop(meta.uid, None)


def _age(pod: Dynamic) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return (created.isoformat() if created else "", pod.metadata.name)
