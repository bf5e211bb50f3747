"""Secrets of agents whose instance is gone: swept.

Pod gone ─► Secret's key ─► read ─► decide ─► delete

A Secret is made before its Pod, so one without a Pod is young or left over; age tells. The Pod's
absence is asked of the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from boilerhouse.core.clock import Clock
from boilerhouse.core.names import pod_of_agent_secret
from boilerhouse.core.plan import Delete, Wait
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Bare, Pod
from boilerhouse.platform.kube.resources import PODS, Key

YOUNG = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Seen:
    now: datetime
    name: str
    uid: str
    version: str
    created_at: datetime
    pod_exists: bool


Plan = Delete | Wait


def decide(seen: Seen) -> Plan:
    """Return whether the Secret has outlived its Pod."""
    if seen.pod_exists:
        return Wait("its Pod is there")
    left = seen.created_at + YOUNG - seen.now
    if left > timedelta(0):
        return Wait("its Pod may be yet to come", left)
    return Delete()


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Reads and applies for the controller of Secrets."""

    client: Client
    secrets: Writer[Bare]
    pods: Informer[Pod]
    clock: Clock

    async def read(self, key: Key) -> Seen | None:
        held = self.secrets.informer.cache.get(key)
        if held is None:
            return None
        meta = held.metadata
        assert meta.creation_timestamp is not None, "a stored object has a creation time"
        exists = await self._pod_exists(Key(key.namespace, pod_of_agent_secret(key.name)))
        return Seen(
            self.clock.now(),
            meta.name,
            meta.uid,
            meta.resource_version,
            meta.creation_timestamp,
            exists,
        )

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        if isinstance(plan, Wait):
            return plan.again_in
        await self.secrets.delete(seen)
        return None

    async def _pod_exists(self, pod: Key) -> bool:
        if self.pods.cache.get(pod) is not None:
            return True
        return await self.client.find(PODS, pod.name, namespace=pod.namespace) is not None
