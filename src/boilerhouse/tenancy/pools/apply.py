"""Carries out what was decided about a pool: one coroutine per verb of the Plan."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from boilerhouse.core.difference import finalizers_patch
from boilerhouse.core.names import READY
from boilerhouse.core.plan import AT_ONCE, AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.kube.status import ApiError, Forbidden
from boilerhouse.platform.loop.stepfailures import StepFailures
from boilerhouse.tenancy.instances.build import warm_pod
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.pools import build
from boilerhouse.tenancy.pools.machine import PoolPhase
from boilerhouse.tenancy.pools.objects import POOLS, Pool
from boilerhouse.tenancy.pools.seen import (
    CreatePod,
    DeletePod,
    LabelPod,
    Plan,
    PoolSeen,
    Seen,
    Step,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Applier:
    """Everything that a pool's plans need to become true."""

    pools: Writer[Pool]
    instances: Instances
    refusals: StepFailures[Key]
    failures: StepFailures[Key]
    events: Events
    settings: Settings

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        """Make the plan true; return when to look again, at once after any change."""
        match plan:
            case Wait(_, again_in):
                return again_in
            case Do(steps):
                # All of them to the end, or one that failed would hide what the others did.
                results = await asyncio.gather(
                    *(self._step(key, seen, step) for step in steps), return_exceptions=True
                )
                for result in results:
                    if result is not None:
                        raise result
            case WriteStatus(status, reason):
                assert seen.pool is not None, "only a Pool that is there is written to"
                patch = build.status_patch(seen.pool.status, status)
                written = await self.pools.patch(seen.pool, patch, subresource="status")
                if written is not None:
                    self._announce(written, seen.pool.status.phase, reason)
        return AT_ONCE

    async def _step(self, key: Key, seen: Seen, step: Step) -> None:
        match step:
            case DeletePod(pod, why, failed):
                if await self.instances.delete(pod, grace=0):
                    log.info("pool.deleted", pool=key.name, pod=pod.name, why=why)
                    if failed:
                        self.failures.note(key, "Fill", f"warm instances fail: {why}")
                return
            case LabelPod(pod, status):
                if await self.instances.patch(pod, build.label(status)) and status == READY:
                    self.failures.clear(key)
                return
        pool = seen.pool
        assert pool is not None, "a pool that is gone makes nothing"
        match step:
            case CreatePod(name):
                await self._create(key, pool, seen, name)
            case AddFinalizer() | RemoveFinalizer():
                held = isinstance(step, AddFinalizer)
                await self.pools.patch(pool, finalizers_patch(pool.finalizers, held=held))

    async def _create(self, key: Key, pool: PoolSeen, seen: Seen, name: str) -> None:
        workload = seen.workload
        assert workload is not None and workload.spec is not None, "decided on a Ready workload"
        body = warm_pod(
            name,
            workload.name,
            workload.spec,
            self.settings,
            pool=pool.name,
            owner=build.owner(pool),
        )
        try:
            await self.instances.create(body)
        except Forbidden as error:
            self.refusals.note(key, "CreatePod", error.message, refused=True)
        except ApiError as error:
            self.refusals.note(key, "CreatePod", f"CreatePod: {error}")
        else:
            self.refusals.clear(key)

    def _announce(self, written: Pool, before: PoolPhase, reason: str) -> None:
        status = written.status
        assert status is not None, "it was just written"
        if status.phase == before:
            return
        message = f"{before} → {status.phase}: {status.ready} of {written.spec.size} ready"
        if status.detail:
            message += f": {status.detail}"
        trouble = status.phase == PoolPhase.ERROR
        self.events.tell(POOLS, written, reason, message, type="Warning" if trouble else "Normal")
        log.info(
            "pool.phase", pool=written.metadata.name, phase=str(status.phase), detail=status.detail
        )
