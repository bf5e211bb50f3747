"""Carries out what was decided about a workload: one coroutine per verb of the Plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from boilerhouse.core.condition import find
from boilerhouse.core.difference import finalizers_patch, status_patch
from boilerhouse.core.plan import AT_ONCE, AddFinalizer, Do, Wait, WriteStatus
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.objects import WORKLOADS, Workload
from boilerhouse.tenancy.workloads.seen import Plan, Seen

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Applier:
    """Everything that a workload's plans need to become true."""

    workloads: Writer[Workload]
    events: Events

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        """Make the plan true; return when to look again, at once after any change."""
        workload = seen.workload
        match plan:
            case Wait(_, again_in):
                return again_in
            case Do(steps):
                patch = finalizers_patch(workload.finalizers, held=AddFinalizer() in steps)
                await self.workloads.patch(workload, patch)
            case WriteStatus(status, reason):
                patch = status_patch(workload.status, status)
                written = await self.workloads.patch(workload, patch, subresource="status")
                if written is not None:
                    self._announce(written, workload.status, reason)
        return AT_ONCE

    def _announce(self, written: Workload, before: WorkloadStatus, reason: str) -> None:
        status = msgspec.convert(written.status, WorkloadStatus)
        if status.phase != before.phase:
            message = f"{before.phase} → {status.phase}"
            log.info(
                "workload.phase",
                workload=written.metadata.name,
                phase=str(status.phase),
                detail=status.detail,
            )
        else:
            message = _said(status, reason) or str(status.phase)
        if status.detail:
            message += f": {status.detail}"
        trouble = status.phase == WorkloadPhase.ERROR
        self.events.tell(
            WORKLOADS, written, reason, message, type="Warning" if trouble else "Normal"
        )


def _said(status: WorkloadStatus, reason: str) -> str:
    """Return what the condition says that gave the reason its name."""
    condition = find(status.conditions, reason)
    return "" if condition is None else condition.message
