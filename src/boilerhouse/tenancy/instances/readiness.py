"""Why a running instance is not ready: the newest words of kubelet about its probe.

InstanceSeen that runs and is not ready ─► Event `Unhealthy` of that Pod ─► InstanceSeen.unready

A Pod's status says only that a container is not ready. What its probe was answered is in Events,
on a cluster as on one machine, so they are asked: not at once, since nearly every program takes a
moment, and then rarely.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from msgspec.structs import replace

from boilerhouse.core.clock import Clock
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Event
from boilerhouse.platform.kube.resources import EVENTS
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.tenancy.instances.seen import InstanceSeen

log = structlog.get_logger(__name__)

SLOW_SECONDS = 1.5  # not ready for so long, it is told why
ASK_SECONDS = 4.0  # between two questions about one Pod
LIMIT = 20_000
_READINESS = "Readiness probe failed"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class _Asked:
    """What is known of one Pod."""

    __slots__ = ("again", "since", "words")

    def __init__(self, since: float) -> None:
        self.since = since
        self.again = 0.0
        self.words = ""


class Readiness:
    """Explains instances that run and are not ready."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._asked: OrderedDict[str, _Asked] = OrderedDict()  # by UID

    async def explain(self, pod: InstanceSeen) -> InstanceSeen:
        """Return the instance with kubelet's words; without any while it may only be starting."""
        if not pod.unready:
            self._asked.pop(pod.uid, None)
            return pod
        now = self._clock.monotonic()
        asked = self._asked.setdefault(pod.uid, _Asked(now))
        if len(self._asked) > LIMIT:
            self._asked.popitem(last=False)
        if now - asked.since < SLOW_SECONDS:
            return replace(pod, unready="")
        if now >= asked.again:
            asked.again = now + ASK_SECONDS
            asked.words = await self._words(pod.uid)
        return replace(pod, unready=asked.words) if asked.words else pod

    async def explain_all(self, pods: Sequence[InstanceSeen]) -> tuple[InstanceSeen, ...]:
        """Explain instances of one workload: of those that wait for the same, one is asked."""
        known: dict[str, str] = {}
        explained = []
        for pod in sorted(pods, key=lambda pod: pod.created_at):
            if pod.unready in known:
                explained.append(replace(pod, unready=known[pod.unready]))
                continue
            found = await self.explain(pod)
            if found.unready:
                known[pod.unready] = found.unready
            explained.append(found)
        order = {pod.uid: place for place, pod in enumerate(pods)}
        return tuple(sorted(explained, key=lambda pod: order[pod.uid]))

    async def _words(self, uid: str) -> str:
        fields = f"involvedObject.uid={uid},reason=Unhealthy"
        try:
            found = (await self._client.list(EVENTS, fields=fields)).items
        except ApiError as error:
            # It may not be ours to read them: then the status alone must do.
            log.debug("readiness.no_events", error=str(error))
            return ""
        return newest(found)


def newest(events: Sequence[Event]) -> str:
    """Return what kubelet said last, of the readiness probe if it said that; nothing if nothing."""
    if not events:
        return ""
    of_readiness = [one for one in events if one.message.startswith(_READINESS)]
    last = max(of_readiness or events, key=_told_at).message
    return last[:1].lower() + last[1:]


def _told_at(event: Event) -> datetime:
    told = event.last_timestamp or event.event_time or event.first_timestamp
    return told or event.metadata.creation_timestamp or _LONG_AGO
