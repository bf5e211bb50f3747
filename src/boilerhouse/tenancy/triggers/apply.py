"""Carries out what was decided about a trigger: its status, and an Event the first time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import structlog

from boilerhouse.core.difference import status_patch
from boilerhouse.core.plan import Wait
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.triggers.decide import Plan, Seen
from boilerhouse.tenancy.triggers.objects import TRIGGERS

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Applier:
    """Everything that a trigger's plans need to become true."""

    triggers: Writer[Dynamic]
    events: Events

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
