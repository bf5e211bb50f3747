"""Reads triggers and writes what was decided about them.

trigger informer ─► read ─► decide ─► apply ─► status, and an Event the first time
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from boilerhouse.core.clock import Clock
from boilerhouse.core.difference import status_patch
from boilerhouse.core.plan import Wait
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.triggers.decide import Plan, Seen
from boilerhouse.tenancy.triggers.model import TriggerStatus
from boilerhouse.tenancy.triggers.objects import TRIGGERS

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Applier:
    """The I/O of the controller of triggers."""

    triggers: Writer[Dynamic]
    events: Events
    clock: Clock

    async def read(self, key: Key) -> Seen | None:
        """Return what there is to see; None if the trigger is gone."""
        held = self.triggers.informer.cache.get(key)
        if held is None:
            return None
        meta = held.metadata
        return Seen(
            now=self.clock.now(),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            generation=meta.generation,
            status=msgspec.convert(held.status, TriggerStatus),
        )

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        """Write the status; what changed meanwhile comes as an event of its own."""
        if isinstance(plan, Wait):
            return None
        patch = status_patch(seen.status, plan.status)
        written = await self.triggers.patch(seen, patch, subresource="status")
        if written is not None and seen.status.phase != plan.status.phase:
            log.warning("trigger.not_built", trigger=seen.name)
            self.events.tell(TRIGGERS, written, plan.reason, plan.status.detail, type="Warning")
        return None
