"""Carries out what was decided about a workload: one coroutine per verb of the Plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import structlog

from boilerhouse.core.condition import find
from boilerhouse.core.plan import AddFinalizer, Do, Wait, WriteStatus
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.kube.status import Conflict, NotFound
from boilerhouse.platform.loop.events import Events
from boilerhouse.tenancy.workloads import build
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.objects import WORKLOADS, Workload
from boilerhouse.tenancy.workloads.seen import Plan, Seen, WorkloadSeen

log = structlog.get_logger(__name__)

AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Applier:
    """Everything that a workload's plans need to become true."""

    client: Client
    workloads: Informer[Workload]
    events: Events

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        """Make the plan true; return when to look again, at once after any change."""
        workload = seen.workload
        match plan:
            case Wait(_, again_in):
                return again_in
            case Do(steps):
                held = AddFinalizer() in steps
                await self._patch(workload, build.finalizers_patch(workload, held=held))
            case WriteStatus(status, reason):
                patch = build.status_patch(workload, status)
                written = await self._patch(workload, patch, subresource="status")
                if written is not None:
                    self._announce(written, workload.status, reason)
        return AT_ONCE

    async def _patch(
        self, workload: WorkloadSeen, patch: dict[str, Any], *, subresource: str = ""
    ) -> Workload | None:
        """Write if it is still as it was seen; else find out how it is, and return None."""
        try:
            written = await self.client.merge_patch(
                WORKLOADS, workload.name, patch, subresource=subresource
            )
        except (Conflict, NotFound):
            await self._refresh(workload)
            return None
        self.workloads.observe(written)
        return written

    async def _refresh(self, workload: WorkloadSeen) -> None:
        try:
            self.workloads.observe(await self.client.get(WORKLOADS, workload.name))
        except NotFound:
            cached = self.workloads.get(self.client.namespace, workload.name)
            if cached is not None and cached.metadata.uid == workload.uid:
                self.workloads.forget(cached)

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
