"""A tenant's wish for an instance, from the call to the answer: what the REST API runs.

acquire ─► Active already? ──────────────────────────────────────────► "existing"
        ─► on its way out? ─► held until that is over; given back if it could not be saved,
                              refused if its Claim was deleted as well: that cannot be taken back
        ─► create the Claim with its Pod chosen ────► passes inline ─► Active | Error
                                                  └─► must wait ─► the informer tells, or time is up

The passes are the operator's own, run here and now for one key (`Controller.run_until`), so nobody
waits for another process; `intent.py` says why that is safe. Nothing polls: who has to wait is
woken by the informer's next news of that Claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from msgspec import Struct

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, new_uid
from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.notifier import ChangeNotifier
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.kube.status import AlreadyExists, NotFound
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.tenancy.claims import build
from boilerhouse.tenancy.claims.decide import INSTANCE_READY
from boilerhouse.tenancy.claims.deciding.epochs import release_of
from boilerhouse.tenancy.claims.deciding.status import CRASH_LOOP, is_frozen
from boilerhouse.tenancy.claims.intent import cold
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Source
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.read import claim_seen
from boilerhouse.tenancy.claims.reading.holdings import Holdings, phase_of, tenancy
from boilerhouse.tenancy.claims.reading.memory import Memory
from boilerhouse.tenancy.claims.reading.spares import Spares
from boilerhouse.tenancy.claims.seen import Plan, Seen
from boilerhouse.tenancy.instances.blueprints import Blueprints
from boilerhouse.tenancy.instances.seen import Blueprint


class UnknownWorkload(Exception):
    """There is no workload of that name."""


class BadTenant(ValueError):
    """The id breaks the rule for tenant ids."""


class AnotherTenant(Exception):
    """The Claim of that name is for somebody else, which only a forged one can be."""


class ClaimDeleted(Exception):
    """The tenant's Claim was deleted and its files could not be saved: see the `claim`.

    Nobody can take back a deletion, and a Claim beside it would not own the instance (intent.py),
    which would then be deleted as a stray, unsaved. So the release must end first.
    """

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"claim {claim.metadata.name} is deleted, and its files are not saved")
        self.claim = claim


class Acquired(Struct, frozen=True):
    """The Claim as it is when the caller is answered. `timings` are seconds, by stage."""

    claim: Claim | None  # None: time was up while an earlier claim was still on its way out
    created: bool
    source: Source | None
    timings: dict[str, float]

    @property
    def phase(self) -> ClaimPhase:
        return ClaimPhase.RELEASING if self.claim is None else phase_of(self.claim)

    @property
    def usable(self) -> bool:
        return self.claim is not None and _usable(self.claim)

    @property
    def frozen(self) -> bool:
        """Whether the instance is there, and is frozen because its disk is full."""
        return self.claim is not None and _frozen(self.claim)


class _Stages:
    """Named stages of one call, one after another; together they are the whole of it."""

    def __init__(self, clock: Clock, first: str) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._name = first
        self._began = clock.monotonic()

    def begin(self, name: str) -> None:
        """End the stage before, and begin one: maybe one that there was already."""
        if name == self._name:
            return
        now, seconds = self._clock.monotonic(), self._seconds
        seconds[self._name] = seconds.get(self._name, 0.0) + now - self._began
        self._name, self._began = name, now

    def end(self) -> dict[str, float]:
        """Return the seconds of each."""
        self.begin("")
        return self._seconds


@dataclass(frozen=True, slots=True)
class Acquirer:
    """`touched` is told of each use of a claim that runs already; it writes if it is time.

    `alive` says whether the instance of an Active claim is there and to stay, as far as is known.
    """

    client: Client
    claims: Informer[Claim]
    writer: Writer[Claim]
    blueprints: Blueprints
    spares: Spares
    memory: Memory
    controller: Controller[Key, Seen, Plan]
    notifier: ChangeNotifier[Claim]
    clock: Clock
    holdings: Holdings
    touched: Callable[[Claim], None] = lambda claim: None
    alive: Callable[[Claim], bool] = lambda claim: True

    async def acquire(
        self,
        tenant: str,
        workload: str,
        *,
        resume: bool = True,
        wait: timedelta = timedelta(seconds=30),
    ) -> Acquired:
        """Give the tenant an instance; what is still under way after `wait` is answered as it is.

        The answer may be in Error. It is never an instance that is being taken away. What would
        never come by waiting is `ClaimDeleted`.
        """
        if not names.is_tenant_id(tenant):
            raise BadTenant(names.TENANT_RULE)
        deadline = asyncio.get_running_loop().time() + wait.total_seconds()
        canonical = names.claim_name(tenant, workload)
        key = Key(self.client.namespace, canonical)
        stages = _Stages(self.clock, "lookup")
        created = False
        claim: Claim | None = None
        first = True
        ran = ""  # UID of a claim that ran when we came, though its instance needed a look
        made = ""  # version of a claim that we created ahead of the disk
        try:
            # Time runs out for waiting only: what was asked for is written down in any case.
            async with asyncio.timeout(None) as patience:
                while True:
                    stages.begin("lookup")
                    if not created:
                        likely = self.holdings.likely(tenant, workload)
                        key = key if likely == key.name else Key(key.namespace, likely)
                    claim = await self._look(key, live=not created)
                    if claim is not None and not is_for(claim, tenant, workload):
                        raise AnotherTenant(f"claim {key.name} is for another tenant or workload")
                    if claim is not None and phase_of(claim) == ClaimPhase.RELEASED:
                        await self._check_workload(workload)  # nothing can follow it without one
                    if claim is None:
                        if key.name != canonical:
                            continue  # it went just now, whatever its name was
                        stages.begin("create")
                        claim = await self._create(key, tenant, workload, resume)
                        if claim is None:
                            continue  # somebody else was first: it is theirs that we wait for
                        created, made = True, claim.metadata.resource_version
                    elif first and (_usable(claim) or _frozen(claim)) and self.alive(claim):
                        self.touched(claim)
                        return Acquired(claim, False, Source.EXISTING, stages.end())
                    elif first and phase_of(claim) == ClaimPhase.ERROR:
                        self.memory.try_again(key)  # the tenant wants it tried now
                    elif _is_lost_to_us(claim):
                        raise ClaimDeleted(claim)
                    elif _is_to_be_had_back(claim):
                        stages.begin("bind")
                        claim = await self._have_back(claim)
                        ran = claim.metadata.uid
                    if first:
                        patience.reschedule(deadline)
                        ran = claim.metadata.uid if _usable(claim) or _frozen(claim) else ran
                        first = False
                    stages.begin("bind")
                    await self._settle(key)
                    stages.begin("wait")
                    claim = await self._settled(key)
                    if claim is not None and not (_is_leaving(claim) or _is_to_be_had_back(claim)):
                        same = claim.metadata.uid == ran
                        source = Source.EXISTING if same else _status(claim).source
                        return Acquired(claim, created, source, stages.end())
        except TimeoutError:
            # As it is by now, and not as it was before the wait: it may say what it waits for.
            claim = self.claims.cache.get(key) or claim
            if claim is not None and claim.metadata.resource_version == made:
                claim = await self._on_disk(claim)
            source = None if claim is None else _status(claim).source
            return Acquired(claim, created, source, stages.end())

    async def _check_workload(self, workload: str) -> Blueprint:
        """Return the workload; `UnknownWorkload` if there is none."""
        blueprint = await self.blueprints.look(workload)
        if blueprint is None:
            raise UnknownWorkload(f"workload {workload} does not exist")
        return blueprint

    async def _look(self, key: Key, *, live: bool) -> Claim | None:
        """Return the Claim; the cache may say that it is not there, since creating it will tell."""
        cached = self.claims.cache.get(key)
        if cached is None or not live:
            return cached
        return await self.writer.refresh(key.name)

    async def _create(self, key: Key, tenant: str, workload: str, resume: bool) -> Claim | None:
        """Create the Claim with its Pod chosen, a warm one if there is one.

        None if somebody else did.
        """
        blueprint = await self._check_workload(workload)
        intent = None
        if blueprint.ready:
            intent = self.spares.reserve(key, workload, blueprint.template)
            intent = intent or cold(tenant, workload, new_uid())
        body = build.claim_body(
            tenant, workload, resume=resume, intent=intent, now=self.clock.now()
        )
        try:
            # Whoever is answered has it on disk: it is Active by then, in Error, or `_on_disk`.
            made = await self.client.create(CLAIMS, body, deferred=True)
        except AlreadyExists:
            self.spares.give_back(key)
            await self.writer.refresh(key.name)
            return None
        self.claims.observe(made)
        return made

    async def _on_disk(self, claim: Claim) -> Claim | None:
        """Wait until a Claim is on disk that was created ahead and not written since.

        A patch that changes nothing is answered when what it found is on disk.
        """
        try:
            return await self.client.merge_patch(CLAIMS, claim.metadata.name, {})
        except NotFound:
            return None

    async def _have_back(self, claim: Claim) -> Claim:
        """Say on a Claim whose release failed that its tenant wants the instance; see epochs.py.

        Whatever happened to the Claim meanwhile is looked at by whoever called.
        """
        seen = claim_seen(claim)
        return await self.writer.patch(seen, build.wanted_back(seen, self.clock.now())) or claim

    async def _settle(self, key: Key) -> None:
        """Take the Claim as far as it goes now, unless a pass of it is under way here anyway.

        One that is Active while its instance seems gone changes nothing if it is not: no news.
        """
        claim = self.claims.cache.get(key)
        there = claim is not None and (_usable(claim) or _frozen(claim))
        doubtful = claim is not None and there and not self.alive(claim)
        if doubtful or not self.controller.busy(key):
            await self.controller.run_until(key, lambda: self._is_usable(key))

    async def _settled(self, key: Key) -> Claim | None:
        """Wait until there is something to answer; None when the Claim is gone or spent."""
        await self.notifier.wait_until(key, lambda: self._has_answer(key))
        claim = self.claims.cache.get(key)
        if claim is not None and phase_of(claim) == ClaimPhase.RELEASED:
            if key.name == names.claim_name(*tenancy(claim)):
                # So that its name is free for the next one (S0: revival).
                await self.writer.delete(claim_seen(claim))
            return None
        return claim

    def _is_usable(self, key: Key) -> bool:
        claim = self.claims.cache.get(key)
        if claim is None or not (_usable(claim) or _frozen(claim)):
            return False
        return self.alive(claim)

    def _has_answer(self, key: Key) -> bool:
        claim = self.claims.cache.get(key)
        if claim is None:
            return True
        if _usable(claim) or _frozen(claim):
            return self.alive(claim)
        if _is_to_be_had_back(claim) or _is_lost_to_us(claim):
            return True
        if _is_in_a_crash_loop(claim):
            return True
        phase = phase_of(claim)
        if _is_leaving(claim):
            # Not ours to remove while a finalizer holds it.
            return phase == ClaimPhase.RELEASED and not claim.metadata.finalizers
        return phase == ClaimPhase.ERROR


def _status(claim: Claim) -> ClaimStatus:
    return claim.status or ClaimStatus()


def is_for(claim: Claim, tenant: str, workload: str) -> bool:
    """Whether a Claim is for this tenant and workload: names are hashes, so its spec is asked."""
    return (claim.spec.tenant_id, claim.spec.workload_ref) == (tenant, workload)


def _is_leaving(claim: Claim) -> bool:
    return _is_to_go(claim) or phase_of(claim) in (ClaimPhase.RELEASING, ClaimPhase.RELEASED)


def _is_to_go(claim: Claim) -> bool:
    """Whether somebody has asked for its release."""
    meta = claim.metadata
    return meta.deletion_timestamp is not None or names.RELEASE in meta.annotations


def _is_to_be_had_back(claim: Claim) -> bool:
    """Whether its instance could not be saved, still lives, and nobody has asked for it yet."""
    if phase_of(claim) != ClaimPhase.RELEASE_FAILED:
        return False
    seen = claim_seen(claim)
    return not seen.deleting and (seen.release or seen.again <= release_of(seen.status).epoch)


def _is_lost_to_us(claim: Claim) -> bool:
    """Whether it was deleted and could not be saved, and no try is about to be made."""
    return claim.metadata.deletion_timestamp is not None and claim_seen(claim).stuck


def _is_in_a_crash_loop(claim: Claim) -> bool:
    """Whether its program ends again and again: who asks is told now, as time does not help."""
    status = claim.status
    if status is None or status.phase != ClaimPhase.ACTIVE or _is_to_go(claim):
        return False
    ready = find(status.conditions, INSTANCE_READY)
    return ready is not None and ready.reason == CRASH_LOOP


def _frozen(claim: Claim) -> bool:
    """Whether its instance is there, staying, and frozen: its disk is full. Waiting is no use."""
    status = claim.status
    if status is None or status.phase != ClaimPhase.ACTIVE or _is_to_go(claim):
        return False
    return is_frozen(status.conditions)


def _usable(claim: Claim) -> bool:
    """Whether a tenant can be sent there: Active, staying, and not in a crash loop."""
    status = claim.status
    if status is None or status.phase != ClaimPhase.ACTIVE or _is_to_go(claim):
        return False
    ready = find(status.conditions, INSTANCE_READY)
    return ready is None or ready.status == ConditionStatus.TRUE
