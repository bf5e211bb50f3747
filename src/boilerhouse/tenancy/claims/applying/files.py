"""Carries out what was decided about a tenant's files: one coroutine per verb.

LookUpSnapshot, Restore, RunHook, Save, Thaw, AskChanges, LookAtUsage ─► Snapshots, Hooks ─► Memory
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from boilerhouse.core.errors import Retry, Terminal
from boilerhouse.node.agent.disk.limit import SLACK, DiskLimit
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.tenancy.claims import build
from boilerhouse.tenancy.claims.deciding.restoring import corrupt_message, unfit_message
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.reading.memory import Memory, frozen_as, turn_of
from boilerhouse.tenancy.claims.seen import (
    AskChanges,
    ClaimSeen,
    LookAtUsage,
    Restore,
    RunHook,
    Save,
    Thaw,
)
from boilerhouse.tenancy.claims.snapshots import (
    CorruptVersion,
    HookFailed,
    Hooks,
    NoSuchVersion,
    Refused,
    Snapshots,
    TooLarge,
    UnfitVersion,
)
from boilerhouse.tenancy.idle.verdict import ChangesSeen
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.seen import InstanceSeen, RestoredSeen

log = structlog.get_logger(__name__)

LITTLE_PATIENCE = 2.0  # seconds for a look-up that can be made later
NOTES = 5  # tries to write on a Pod that its kubelet writes on at the same time


@dataclass(frozen=True, slots=True)
class Files:
    """Everything that steps about files need to become true."""

    snapshots: Snapshots
    hooks: Hooks
    instances: Instances
    memory: Memory
    events: Events

    async def look_up(self, key: Key, claim: ClaimSeen, *, must: bool) -> None:
        """Ask which version is current; note also that there was no answer, if none is needed."""
        asked = self.snapshots.current(claim.tenant, claim.workload)
        if must:
            self.memory.stored.note(key, claim.uid, await asked)
            return
        try:
            async with asyncio.timeout(LITTLE_PATIENCE):
                digest = await asked
        except (ApiError, Retry, Terminal, TimeoutError) as error:
            log.info("claim.base_unknown", claim=key.name, error=str(error))
            self.memory.unanswered.note(key, claim.uid, True)
        else:
            self.memory.stored.note(key, claim.uid, digest)

    async def look_up_previous(self, key: Key, claim: ClaimSeen, digest: str) -> None:
        found = await self.snapshots.previous(claim.tenant, claim.workload, digest)
        if not found:
            raise Refused(f"there is no good version before {digest}, which is damaged")
        self.memory.previous.note(key, digest, found)

    async def restore(self, key: Key, claim: ClaimSeen, step: Restore) -> None:
        pod = step.pod
        try:
            skipped = await self.snapshots.restore(
                pod.name,
                pod.uid,
                tenant=claim.tenant,
                workload=claim.workload,
                digest=step.digest,
                mode=step.mode,
            )
        except CorruptVersion as error:
            self.memory.corrupt.note(key, claim.uid, step.digest)
            raise Refused(corrupt_message(step.digest, str(error))) from error
        except UnfitVersion as error:
            self.memory.corrupt.note(key, claim.uid, step.digest)
            raise Refused(unfit_message(step.digest, str(error))) from error
        except NoSuchVersion as error:
            raise Refused(
                f"version {step.digest} of the tenant's files is gone: release the claim, and claim"
                " again to have what is stored now"
            ) from error
        except TooLarge as error:
            raise Refused(
                f"version {step.digest} of the tenant's files has no room in an instance ({error}):"
                " release the claim, then give the workload more disk or restore another version"
            ) from error
        self.memory.skipped.note(key, pod.uid, skipped)
        before = pod.container if step.mode == "restart" else ""
        await self._note_restored(pod, RestoredSeen(step.digest, before))

    async def _note_restored(self, pod: InstanceSeen, restored: RestoredSeen) -> None:
        """Write on the Pod whose files are in it.

        A restart changes the Pod at the very same time. What is written was true before it, so it
        is written on the Pod as it is then, as long as it is the same one and carries the same
        claim.
        """
        seen: InstanceSeen | None = pod
        for _ in range(NOTES):
            if seen is None or seen.uid != pod.uid or seen.claim != pod.claim:
                raise Retry(f"instance {pod.name} is another one by now")
            if seen.restored is not None:
                return
            if await self.instances.patch(seen, build.restored_note(restored)):
                log.info("instance.restored", pod=pod.name, version=restored.digest)
                return
            seen = await self.instances.look(pod.name, pod.uid)
        raise Retry(f"instance {pod.name} kept changing; gave up after {NOTES} attempts")

    async def save(
        self, key: Key, claim: ClaimSeen, step: Save, halting: Callable[[], None]
    ) -> None:
        pod = step.pod
        saved = await self.snapshots.save(
            pod.name,
            pod.uid,
            tenant=claim.tenant,
            workload=claim.workload,
            base=step.base,
            epoch=step.epoch,
            keep=step.keep,
            clean=step.clean,
            halting=halting,
        )
        log.info(
            "instance.saved", pod=pod.name, version=saved.digest, side_version=saved.side_version
        )
        self.memory.saved.note(key, frozen_as(pod, step.epoch), saved)

    async def thaw(self, key: Key, step: Thaw) -> None:
        await self.snapshots.thaw(step.pod.name, step.pod.uid, epoch=step.epoch)
        self.memory.thawed.note(key, frozen_as(step.pod, step.epoch), True)

    async def run_hook(self, key: Key, claim: Claim | None, step: RunHook) -> None:
        """Run the command once for its turn; a failure that does not count is told as an Event."""
        try:
            await self.hooks.run(step.pod.name, step.command, step.timeout)
        except HookFailed as error:
            if claim is not None:
                words = f"hook {step.name} in instance {step.pod.name}: {error}"
                self.events.tell(CLAIMS, claim, "HookFailed", words, type="Warning")
            if step.must:
                raise
        self.memory.hooked.note(key, turn_of(step.pod, step.turn), True)

    async def ask_changes(self, key: Key, now: datetime, step: AskChanges) -> None:
        """Ask, and note also that there was no answer: that is not idleness (verdict.py)."""
        pod = step.pod
        try:
            told = await self.snapshots.changes(pod.name, pod.uid, step.directories, step.since)
            seen = ChangesSeen.of(now, told)
        except (ApiError, Retry, Terminal) as error:
            seen = ChangesSeen(now, trouble=str(error))
        self.memory.changes.note(key, pod.uid, seen)

    async def look_at_usage(self, key: Key, step: LookAtUsage) -> None:
        """Ask, and note also that there was no answer: the next look comes when it is time."""
        try:
            usage = await self.snapshots.usage(step.pod.name, step.pod.uid, step.disk_gb)
        except (ApiError, Retry, Terminal) as error:
            log.info("claim.usage_unknown", pod=step.pod.name, error=str(error))
            self.memory.note_usage(key, step.pod, None)
        else:
            limit = DiskLimit.of_gb(usage.limit >> 30)
            self.memory.note_usage(
                key,
                step.pod,
                usage.full,
                over=not usage.full and limit.is_exceeded(usage.used, usage.inodes),
                unlinked=usage.unlinked > limit.bytes * SLACK,
            )
