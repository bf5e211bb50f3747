"""Carries out what was decided about a claim: one coroutine per verb of the Plan.

Do          ─► steps beside each other ─► results into Memory, what failed into its failures
            ├► in turn, where whoever they ask is in this process
            ├► a job, in a process that does none ─► left to the one that does; its news are ours
            └► a bug: of a job a failure as well, of any other step the pass's
WriteStatus ─► compare-and-swap ─► own write into the informer ─► Event
WriteIntent ─► compare-and-swap ─► own write into the informer

A write that comes too late is not an error: the Claim is fetched and decided upon again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from boilerhouse.core.condition import find
from boilerhouse.core.difference import finalizers_patch, status_patch
from boilerhouse.core.errors import Retry, Terminal
from boilerhouse.core.plan import AT_ONCE, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.kube.status import ApiError, Forbidden
from boilerhouse.tenancy.claims import build
from boilerhouse.tenancy.claims.applying.files import Files
from boilerhouse.tenancy.claims.applying.jobs import Jobs
from boilerhouse.tenancy.claims.applying.rivals import Rivals
from boilerhouse.tenancy.claims.deciding.status import (
    DISK_FULL,
    ENOUGH_ROOM,
    OVER_LIMIT,
    SAVED_IN_PART,
)
from boilerhouse.tenancy.claims.deciding.trying import REASONS
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.reading.memory import Memory, looked_at
from boilerhouse.tenancy.claims.seen import (
    AskChanges,
    BindPod,
    ClaimSeen,
    CreatePod,
    DeleteClaim,
    DeletePod,
    DeliverIdentity,
    LookAtUsage,
    LookForRival,
    LookUpPrevious,
    LookUpSnapshot,
    NoteActivity,
    Plan,
    Restore,
    RunHook,
    Save,
    Seen,
    Step,
    Thaw,
    WriteIntent,
)
from boilerhouse.tenancy.claims.snapshots import Refused
from boilerhouse.tenancy.instances.build import cold_pod
from boilerhouse.tenancy.instances.identity import Identities, Identity
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.settings import Settings

log = structlog.get_logger(__name__)


_JOBS = (Save, Restore, RunHook)

# Told as Events although the phase stays what it is.
_TROUBLE = frozenset(
    {
        DISK_FULL,
        OVER_LIMIT,
        "SnapshotConflict",
        "RestorePrevious",
        "InstanceLost",
        *REASONS.values(),
    }
)
_TOLD = frozenset({"Saved", SAVED_IN_PART, ENOUGH_ROOM, *_TROUBLE})


@dataclass(frozen=True, slots=True)
class Applier:
    """Everything that a claim's plans need to become true.

    With `at_hand`, whoever is asked by steps is in this process: while one of them is under way no
    other could go on anyway, and a task for each would only cost.
    """

    claims: Writer[Claim]
    instances: Instances
    identities: Identities
    rivals: Rivals
    files: Files
    jobs: Jobs
    memory: Memory
    events: Events
    settings: Settings
    at_hand: bool = False

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        """Make the plan true; return when to look again, at once after any change."""
        match plan:
            case Wait(_, again_in):
                return again_in
            case Do(steps):
                ours = steps
                if not self.jobs.here:
                    ours = tuple(step for step in steps if not isinstance(step, _JOBS))
                if self.at_hand:
                    for step in ours:
                        await self._step(key, seen, step)
                elif ours:
                    await self._do(key, seen, *ours)
                return AT_ONCE if len(ours) == len(steps) else None
        claim = seen.claim
        assert claim is not None, "only a Claim that is there is written to"
        match plan:
            case WriteStatus(status, reason):
                patch = status_patch(claim.status, status)
                written = await self.claims.patch(claim, patch, subresource="status")
                if written is not None:
                    self._announce(written, claim.status.phase, reason)
            case NoteActivity():
                await self.claims.patch(claim, build.activity_patch(seen.now))
            case WriteIntent(intent):
                written = await self.claims.patch(claim, build.intent_patch(claim, intent))
                if written is not None:
                    log.debug("claim.chose", claim=claim.name, pod=str(intent))
        return AT_ONCE

    async def _do(self, key: Key, seen: Seen, first: Step, *others: Step) -> None:
        """Carry out steps beside each other, the first in this very task: most have no other."""
        beside = [asyncio.create_task(self._step(key, seen, step)) for step in others]
        try:
            await self._step(key, seen, first)
            for task in beside:
                await task
        except BaseException:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            raise

    async def _step(self, key: Key, seen: Seen, step: Step) -> None:
        work, name = self._tried(key, seen, step), type(step).__name__
        if not isinstance(step, _JOBS):
            await work
            return

        def failed(error: BaseException) -> None:
            why = f"{name}: {type(error).__name__}: {error} (the log has more: claim.job_failed)"
            self.memory.fail(key, seen.claim, name, why, refused=False)

        if isinstance(step, Save):
            await self.jobs.save(key, name, work, failed, first=step.pod.terminating)
        else:
            await self.jobs.run(key, name, work, failed, awaited=isinstance(step, Restore))

    async def _tried(self, key: Key, seen: Seen, step: Step) -> None:
        name, failures = type(step).__name__, self.memory.failures
        try:
            await self._carry_out(key, seen, step)
        except Refused as error:
            self.memory.fail(key, seen.claim, name, str(error), refused=True)
        except Forbidden as error:
            self.memory.fail(key, seen.claim, name, error.message, refused=True)
        except (ApiError, Retry, Terminal) as error:
            log.info("claim.step_failed", claim=key.name, step=name, error=str(error))
            self.memory.fail(key, seen.claim, name, f"{name}: {error}", refused=False)
        else:
            before = failures.of(key)
            if before is not None and before.step == name:
                failures.clear(key)

    async def _carry_out(self, key: Key, seen: Seen, step: Step) -> None:
        match step:
            case DeletePod(pod, why):
                # S1: what is released or destroyed goes at once.
                if await self.instances.delete(pod, grace=0):
                    log.info("instance.deleted", pod=pod.name, claim=key.name, why=why)
                return
        claim = seen.claim
        assert claim is not None, "only a Pod can be left without its Claim"
        match step:
            case BindPod(pod):
                # Nobody is told of it before the Claim is written: Active, or why it is not.
                binding = build.binding(claim.ref, claim.tenant)
                if await self.instances.patch(pod, binding, deferred=True):
                    log.debug("claim.bound", claim=claim.name, pod=pod.name)
            case CreatePod(name, restore):
                await self._create(claim, seen, name, restore)
            case LookForRival():
                await self._look_for_rival(key, claim)
            case DeliverIdentity(pod_name, uid):
                await self._deliver(key, claim, seen, pod_name, uid)
            case RemoveFinalizer():
                await self.claims.patch(claim, finalizers_patch(claim.finalizers, held=False))
            case DeleteClaim():
                await self.claims.delete(claim)
            case _:
                await self._about_files(key, claim, seen, step)

    async def _about_files(self, key: Key, claim: ClaimSeen, seen: Seen, step: Step) -> None:
        files = self.files
        match step:
            case LookUpSnapshot(must):
                await files.look_up(key, claim, must=must)
            case LookUpPrevious(digest):
                await files.look_up_previous(key, claim, digest)
            case Restore():
                await files.restore(key, claim, step)
            case Save():
                # Who does not come to rest keeps nobody else from being saved meanwhile.
                await files.save(key, claim, step, lambda: self.jobs.leave_place(key))
            case Thaw():
                await files.thaw(key, step)
            case RunHook():
                await files.run_hook(key, self.claims.informer.cache.get(key), step)
            case AskChanges():
                await files.ask_changes(key, seen.now, step)
            case LookAtUsage():
                await files.look_at_usage(key, step)

    async def _create(self, claim: ClaimSeen, seen: Seen, name: str, restore: str) -> None:
        workload = seen.workload
        assert workload is not None and workload.spec is not None, "decided on a Ready workload"
        body = cold_pod(
            name,
            workload.name,
            workload.spec,
            self.settings,
            tenant=claim.tenant,
            claim=str(claim.ref),
            restore=restore,
        )
        await self.instances.create(body)

    async def _look_for_rival(self, key: Key, claim: ClaimSeen) -> None:
        rival = await self.rivals.find(claim)
        if rival:
            raise Refused(
                f"claim {rival} is for the same tenant and workload already:"
                " use that one, or delete one of the two"
            )
        self.memory.sole.note(key, looked_at(claim), True)

    async def _deliver(
        self, key: Key, claim: ClaimSeen, seen: Seen, pod: str, pod_uid: str
    ) -> None:
        spec = None if seen.workload is None else seen.workload.spec
        access = None if spec is None else spec.api_access
        identity = Identity(
            tenant=claim.tenant,
            workload=claim.workload,
            claim=claim.name,
            claim_uid=claim.uid,
            scopes=() if access is None else access.scopes,
        )
        await self.identities.deliver(pod, pod_uid, identity)
        assert seen.pod is not None, "it was decided for this Pod"
        self.memory.delivered.note(key, seen.pod.life, True)

    def _announce(self, written: Claim, before: ClaimPhase, reason: str) -> None:
        status = written.status
        assert status is not None, "it was just written"
        if status.phase == before and reason not in _TOLD:
            return
        log.info(
            "claim.phase",
            claim=written.metadata.name,
            phase=str(status.phase),
            before=str(before),
            reason=reason,
            detail=status.detail,
        )
        message = _message(status, before, reason)
        failed = status.phase in (ClaimPhase.ERROR, ClaimPhase.RELEASE_FAILED)
        trouble = failed or reason in _TROUBLE
        self.events.tell(CLAIMS, written, reason, message, type="Warning" if trouble else "Normal")


def _message(status: ClaimStatus, before: ClaimPhase, reason: str) -> str:
    """Say what has become of a claim, as the message of an Event."""
    message = f"{before} → {status.phase}" if before != status.phase else str(status.phase)
    stated = find(status.conditions, DISK_FULL if reason in (ENOUGH_ROOM, OVER_LIMIT) else reason)
    if stated is not None and stated.message:  # the event is that this condition is so
        return f"{message}: {stated.message}"
    if status.instance_id and status.phase == ClaimPhase.ACTIVE:
        message += f": instance {status.instance_id} ({status.source})"
    if reason == "Saved" and status.snapshot is not None:
        message += f": saved as {status.snapshot.saved}"
    if status.detail:
        message += f": {status.detail}"
    return message
