"""A tenant's wish to be rid of its instance, from the call to the answer.

release, retry, force ─► annotation on the Claim ─► passes inline ─► gone | ReleaseFailed
                                                └─► must wait ─► the informer tells, or time is up

The annotation is the whole of the wish: whoever reconciles the Claim walks it to Released and then
deletes the object, also if this process dies meanwhile.

A release takes its turn (priority.py): of fifty at once a few begin beside each other, and
none while a claim is being answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import timedelta

from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.difference import bound
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.notifier import ChangeNotifier
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.kube.status import Conflict, NotFound
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.tenancy.claims import build
from boilerhouse.tenancy.claims.deciding.status import SAVED_IN_PART, SNAPSHOT_CONFLICT
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Release
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.read import claim_seen
from boilerhouse.tenancy.claims.reading.holdings import Holdings, phase_of
from boilerhouse.tenancy.claims.requests.acquire import is_for
from boilerhouse.tenancy.claims.seen import Plan, Seen

ATTEMPTS = 5


class NotClaimed(Exception):
    """The tenant has no claim on that workload."""


class NotFailed(Exception):
    """There is no release that failed, or is still being tried."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """How far the release has come when the caller is answered.

    `saved`: digest of the version that was saved; "" if none was. `side_version`: why it is not the
    current one; "" if it is. `left_out`: what no archive can keep, if there was such.
    """

    phase: ClaimPhase
    detail: str
    saved: str = ""
    side_version: str = ""
    left_out: str = ""
    release: Release | None = None  # attempts and the next try, of one that failed


@dataclass(frozen=True, slots=True)
class Releaser:
    client: Client
    claims: Informer[Claim]
    controller: Controller[Key, Seen, Plan]
    notifier: ChangeNotifier[Claim]
    clock: Clock
    holdings: Holdings
    gate: Gate

    async def release(
        self, tenant: str, workload: str, *, wait: timedelta = timedelta(seconds=30)
    ) -> ReleaseAnswer:
        """Release the tenant's claim; `NotClaimed` if there is none. Again does no harm.

        One that waits behind it under another name goes too, or it would get the next instance.
        """
        began = asyncio.get_running_loop().time()
        await self.gate.turn()
        with self.gate.background():
            held = await self.holdings.find(tenant, workload)
            if not held:
                raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")
            for waiting in held[1:]:
                with contextlib.suppress(NotClaimed):  # it went by itself
                    other = Key(self.client.namespace, waiting.metadata.name)
                    await self._ask(other, tenant, workload)
            key = Key(self.client.namespace, held[0].metadata.name)
            claim = await self._ask(key, tenant, workload)
        waited = timedelta(seconds=asyncio.get_running_loop().time() - began)
        return await self._watch(key, claim, wait - waited)

    async def retry(
        self, tenant: str, workload: str, *, wait: timedelta = timedelta(seconds=30)
    ) -> ReleaseAnswer:
        """Try a release that failed once more, now; `NotFailed` if none did."""
        key = await self._failed(tenant, workload)
        claim = await self._ask(key, tenant, workload, release=False)
        return await self._watch(key, claim, wait)

    async def force(
        self, tenant: str, workload: str, *, wait: timedelta = timedelta(seconds=30)
    ) -> ReleaseAnswer:
        """Give up what cannot be saved (`would_lose`), and the instance; `NotFailed` if it can."""
        key = await self._failed(tenant, workload)
        claim = await self._ask(key, tenant, workload, release=False, force=True)
        return await self._watch(key, claim, wait)

    async def failed_claim(self, tenant: str, workload: str) -> Claim:
        """Return the Claim whose release failed, or is being tried; else `NotFailed`."""
        held = await self.holdings.find(tenant, workload)
        if not held:
            raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")
        phase = phase_of(held[0])
        if phase not in (ClaimPhase.RELEASE_FAILED, ClaimPhase.RELEASING):
            raise NotFailed(f"claim {held[0].metadata.name} is {phase}: no release of it failed")
        return held[0]

    async def _failed(self, tenant: str, workload: str) -> Key:
        claim = await self.failed_claim(tenant, workload)
        return Key(self.client.namespace, claim.metadata.name)

    async def _watch(self, key: Key, claim: Claim, wait: timedelta) -> ReleaseAnswer:
        """Take the release as far as it goes, and say how far that was."""
        last = claim

        def is_over() -> bool:
            nonlocal last
            found = self.claims.cache.get(key)
            if found is None or found.metadata.uid != claim.metadata.uid:
                return True
            last = found
            seen = claim_seen(found)
            # What is left of it are finalizers of others, which may take for ever.
            ours_is_done = seen.deleting and not seen.held
            return seen.stuck or (ours_is_done and seen.status.phase == ClaimPhase.RELEASED)

        with contextlib.suppress(TimeoutError):  # answered as it is: it goes on without us
            async with asyncio.timeout(wait.total_seconds()):
                if not self.controller.busy(key):
                    await self.gate.turn()
                    with self.gate.background():
                        await self.controller.run_until(key, is_over)
                await self.notifier.wait_until(key, is_over)
        found = self.claims.cache.get(key)
        gone = found is None or found.metadata.uid != claim.metadata.uid
        return _answer(last.status or ClaimStatus(), gone)

    async def _ask(
        self, key: Key, tenant: str, workload: str, *, release: bool = True, force: bool = False
    ) -> Claim:
        """Write the wish on the Claim as it is now."""
        for attempt in range(ATTEMPTS):
            try:
                claim = await self.client.get(CLAIMS, key.name)
            except NotFound:
                claim = None
            if claim is None or not is_for(claim, tenant, workload):
                raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")
            seen = claim_seen(claim)
            asked = (seen.release or not release) and (seen.force or not force)
            if asked and not seen.stuck:
                self.claims.observe(claim)
                return claim
            patch = build.wish_to_go(seen, self.clock.now(), release=release, force=force)
            try:
                written = await self.client.merge_patch(CLAIMS, key.name, bound(seen, patch))
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            except NotFound:
                continue
            self.claims.observe(written)
            return written
        raise NotClaimed(f"tenant {tenant} has no claim on workload {workload}")


def would_lose(claim: Claim, current: str | None) -> str:
    """Say what is lost if a release is forced.

    `current`: digest of what is stored now, "" if nothing is, None if nobody can tell.
    """
    refs = None if claim.status is None else claim.status.snapshot
    if refs is not None and refs.saved:
        return f"nothing: version {refs.saved} is saved"
    since = None if claim.status is None else claim.status.claimed_at
    when = "" if since is None else f" since {rfc3339(since)}"
    stored = (refs.base if refs is not None else "") if current is None else current
    if stored:
        kept = f"version {stored} is kept"
    else:
        kept = "no version is stored" if current == "" else "nobody can say if a version is stored"
    return f"everything that the tenant wrote{when}; {kept}"


def _answer(last: ClaimStatus, gone: bool) -> ReleaseAnswer:
    return ReleaseAnswer(
        ClaimPhase.RELEASED if gone else last.phase,
        last.detail,
        "" if last.snapshot is None else last.snapshot.saved,
        _stated(last, SNAPSHOT_CONFLICT),
        _stated(last, SAVED_IN_PART),
        last.release if last.phase == ClaimPhase.RELEASE_FAILED else None,
    )


def _stated(status: ClaimStatus, condition: str) -> str:
    """Return the words of a condition that is so."""
    found = find(status.conditions, condition)
    return found.message if found is not None and found.status == ConditionStatus.TRUE else ""
