"""A tenant's wish to be rid of its instance, from the call to the answer.

release ─► annotation on the Claim ─► passes inline ─► gone, or the informer tells, or time is up

The annotation is the whole of the wish: whoever reconciles the Claim walks it to Released and then
deletes the object, also if this process dies meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import timedelta

from boilerhouse.claims.acquire import is_for
from boilerhouse.claims.holdings import Holdings
from boilerhouse.claims.machine import ClaimPhase
from boilerhouse.claims.objects import CLAIMS, Claim
from boilerhouse.claims.seen import Plan, Seen
from boilerhouse.core import names
from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.kube.client import Client
from boilerhouse.kube.informer import Informer
from boilerhouse.kube.resources import Key
from boilerhouse.kube.status import Conflict, NotFound
from boilerhouse.loop.controller import Controller
from boilerhouse.loop.news import News

ATTEMPTS = 5


class NotClaimed(Exception):
    """The tenant has no claim on that workload."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """How far the release has come when the caller is answered."""

    phase: ClaimPhase
    detail: str


@dataclass(frozen=True, slots=True)
class Releaser:
    client: Client
    claims: Informer[Claim]
    controller: Controller[Key, Seen, Plan]
    news: News[Claim]
    clock: Clock
    holdings: Holdings

    async def release(
        self, tenant: str, workload: str, *, wait: timedelta = timedelta(seconds=30)
    ) -> ReleaseAnswer:
        """Release the tenant's claim; `NotClaimed` if there is none. Again does no harm.

        One that waits behind it under another name goes too, or it would get the next instance.
        """
        held = await self.holdings.find(tenant, workload)
        if not held:
            raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")
        for waiting in held[1:]:
            with contextlib.suppress(NotClaimed):  # it went by itself
                await self._ask(Key(self.client.namespace, waiting.metadata.name), tenant, workload)
        key = Key(self.client.namespace, held[0].metadata.name)
        claim = await self._ask(key, tenant, workload)
        uid = claim.metadata.uid
        with contextlib.suppress(TimeoutError):  # answered as it is: it goes on without us
            async with asyncio.timeout(wait.total_seconds()):
                if not self.controller.busy(key):
                    await self.controller.run_until(key, lambda: self._is_over(key, uid))
                await self.news.until(key, lambda: self._is_over(key, uid))
        last = self.claims.cache.get(key)
        if last is None or last.metadata.uid != uid or last.status is None:
            return ReleaseAnswer(ClaimPhase.RELEASED, "")
        return ReleaseAnswer(last.status.phase, last.status.detail)

    async def _ask(self, key: Key, tenant: str, workload: str) -> Claim:
        """Write the annotation on the Claim as it is now."""
        for attempt in range(ATTEMPTS):
            try:
                claim = await self.client.get(CLAIMS, key.name)
            except NotFound:
                claim = None
            if claim is None or not is_for(claim, tenant, workload):
                raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")
            meta = claim.metadata
            if names.RELEASE in meta.annotations:
                self.claims.observe(claim)
                return claim
            patch = {
                "metadata": {
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                    "annotations": {names.RELEASE: rfc3339(self.clock.now())},
                }
            }
            try:
                written = await self.client.merge_patch(CLAIMS, key.name, patch)
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            except NotFound:
                continue
            self.claims.observe(written)
            return written
        raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")

    def _is_over(self, key: Key, uid: str) -> bool:
        """Whether the claim is gone, or can get no further by itself."""
        claim = self.claims.cache.get(key)
        if claim is None or claim.metadata.uid != uid:
            return True
        return claim.status is not None and claim.status.phase == ClaimPhase.RELEASE_FAILED
