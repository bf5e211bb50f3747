"""Gathers what a decision about a claim may look at.

claim informer ─┐
Pod informer ───┼─► Seen      a live GET wherever the caches say "absent",
workloads ──────┤             and of the Claim itself before anything is called a stray
spares, memory ─┘
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, parse_time
from boilerhouse.platform.kube.cache import Index
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.projections import Views
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.applying.jobs import Jobs
from boilerhouse.tenancy.claims.decide import decide
from boilerhouse.tenancy.claims.deciding.epochs import release_of
from boilerhouse.tenancy.claims.deciding.obtaining import LOOK_AGAIN, keeps_choice
from boilerhouse.tenancy.claims.deciding.restoring import wanted
from boilerhouse.tenancy.claims.deciding.status import DISK_FULL, is_true
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.reading.memory import Memory, frozen_as, looked_at, turn_of
from boilerhouse.tenancy.claims.reading.spares import Spares
from boilerhouse.tenancy.claims.seen import ClaimSeen, Seen, WriteIntent
from boilerhouse.tenancy.instances.blueprints import Blueprints
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.patience import Patience
from boilerhouse.tenancy.instances.readiness import Readiness
from boilerhouse.tenancy.instances.seen import Blueprint, ClaimRef, InstanceSeen

_OBTAINING = frozenset({ClaimPhase.PENDING, ClaimPhase.ERROR})
# Stands for "some warm Pod" when decide is asked whether it would take one.
_ANY = Intent("any", "any")


def claim_of(pod: Pod) -> list[str]:
    """Return the name of the claim that a Pod carries: the values of an index."""
    ref = ClaimRef.parse(pod.metadata.annotations.get(names.CLAIM, ""))
    return [] if ref is None else [ref.name]


def claim_seen(claim: Claim) -> ClaimSeen:
    """Make of a Claim what decisions may know of it."""
    meta, spec = claim.metadata, claim.spec
    status = claim.status or ClaimStatus()
    noted = meta.annotations
    intent = Intent.parse(noted.get(names.POD, ""))
    if intent is None and status.instance_id:
        # Somebody took the annotation off. The instance is still this claim's, not a stray.
        intent = Intent(status.instance_id)
    return ClaimSeen(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        tenant=spec.tenant_id,
        workload=spec.workload_ref,
        status=status,
        intent=intent,
        finalizers=tuple(meta.finalizers),
        deleting=meta.deletion_timestamp is not None,
        release=names.RELEASE in noted,
        resume=spec.resume,
        last_activity=noted_moment(noted.get(names.LAST_ACTIVITY, "")),
        again=_number(noted.get(names.CLAIMED_AGAIN, "")),
        retry=_number(noted.get(names.RELEASE_RETRY, "")),
        force=names.RELEASE_FORCE in noted,
        restore_previous=noted.get(names.RESTORE_PREVIOUS) == "true",
    )


def noted_moment(text: str) -> datetime | None:
    """Read a time out of an annotation."""
    try:
        return parse_time(text)
    except ValueError:
        return None  # none, or one that a user wrote: as if there were none


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


@dataclass(frozen=True, slots=True)
class Reader:
    """Where a claim's Seen comes from."""

    claims: Writer[Claim]
    instances: Instances
    by_claim: Index[Pod]  # Pods by the name of the claim they carry
    blueprints: Blueprints
    spares: Spares
    memory: Memory
    jobs: Jobs
    healthy: Callable[[str], bool]
    turn: Callable[[InstanceSeen], str]  # the node that an instance is to leave now
    patience: Patience
    readiness: Readiness
    clock: Clock
    views: Views[Claim, ClaimSeen] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", Views(claim_seen, self.claims.informer.cache))

    async def read(self, key: Key) -> Seen | None:
        """Return everything there is to see; None if there is neither claim nor Pod of it."""
        carrying = [self.instances.view(pod) for pod in self.by_claim.get(key.name)]
        held = self.claims.informer.cache.get(key)
        claim = None if held is None else self.views.of(held)
        strays = _strays(claim, carrying)
        if claim is None or strays:
            # In this order: what the Pods carry was true before the server is asked for the claim,
            # so a claim that the server does not name then is no more, or never will be again.
            held = await self.claims.refresh(key.name)
            claim = None if held is None else self.views.of(held)
            strays = _strays(claim, carrying)
        if claim is None:
            self.memory.forget(key)
            self.spares.give_back(key)
            return Seen(self.clock.now(), None, strays=strays) if strays else None
        pod = None
        if claim.intent is not None:
            pod = await self.instances.look(claim.intent.pod, claim.intent.uid)
            if pod is not None and claim.status.claimed_at is not None and not claim.owns(pod):
                # It was bound before the claim became Active, and this process has heard of the
                # one and not of the other: Claims and Pods are watched apart.
                pod = await self.instances.look_live(claim.intent.pod)
            pod = None if pod is None else self.patience.timed(pod)
            if pod is not None and pod.waited >= LOOK_AGAIN:
                # Nothing was heard of it for long. A server that holds back what it should tell
                # (seen: for as long as no other Pod changed) still answers when it is asked.
                pod = await self.instances.look_live(claim.intent.pod)
                pod = None if pod is None else self.patience.timed(pod)
            pod = None if pod is None else await self.readiness.explain(pod)
        workload = await self.blueprints.look(claim.workload)
        return self._with_spare(key, self._seen(key, claim, workload, pod, strays))

    def _seen(
        self,
        key: Key,
        claim: ClaimSeen,
        workload: Blueprint | None,
        pod: InstanceSeen | None,
        strays: tuple[InstanceSeen, ...],
    ) -> Seen:
        """Put it together with what steps have found out, as far as that is of what is seen now."""
        memory, phase = self.memory, claim.status.phase
        seen = Seen(
            now=self.clock.now(),
            claim=claim,
            workload=workload,
            pod=pod,
            strays=strays,
            failure=memory.failure(key, claim),
            busy=self.jobs.of(key),
            delivered=pod is not None and memory.delivered.get(key, pod.life) is not None,
            stored=memory.stored.get(key, claim.uid),
            hooked=workload is not None and workload.has_hooks and self._is_hooked(key, claim, pod),
        )
        if phase in _OBTAINING:
            return self._to_be_obtained(key, claim, pod, seen)
        if pod is None:
            return seen
        if phase == ClaimPhase.ACTIVE:
            was_full = is_true(claim.status.conditions, DISK_FULL)
            usage = memory.usage(key, pod, was_full=was_full) if pod.overlays else None
            changes = memory.changes.get(key, pod.uid)
            return replace(seen, cordoned=self.turn(pod), changes=changes, usage=usage)
        number = release_of(claim.status).epoch
        saved = memory.saved.get(key, frozen_as(pod, number))
        thawed = memory.thawed.get(key, frozen_as(pod, max(number, claim.again)))
        frozen = phase == ClaimPhase.RELEASE_FAILED and pod.overlays and not pod.agent_ready
        usage = memory.usage(key, pod) if frozen else None
        return replace(seen, saved=saved, thawed=thawed is not None, usage=usage)

    def _to_be_obtained(
        self, key: Key, claim: ClaimSeen, pod: InstanceSeen | None, seen: Seen
    ) -> Seen:
        """Add what is asked of a claim that has no instance yet."""
        memory, uid = self.memory, claim.uid
        corrupt = memory.corrupt.get(key, uid) or ""
        skipped = None if pod is None or pod.restored is None else memory.skipped.get(key, pod.uid)
        frozen = pod is not None and pod.overlays and not pod.agent_ready
        return replace(
            seen,
            usage=memory.usage(key, pod) if pod is not None and frozen else None,
            pod_on_healthy_node=pod is None or self.healthy(pod.node),
            sole=memory.sole.get(key, looked_at(claim)) is not None,
            # Noted of a claim that starts clean, and of no other.
            unanswered=not claim.resume and memory.unanswered.get(key, uid) is not None,
            corrupt=corrupt,
            previous=memory.previous.get(key, corrupt) if corrupt else None,
            skipped=skipped or (),
        )

    def _is_hooked(self, key: Key, claim: ClaimSeen, pod: InstanceSeen | None) -> bool:
        if pod is None:
            return False
        status, memory = claim.status, self.memory
        turn = str(release_of(status).epoch)
        if status.claimed_at is None:
            turn = wanted(claim, memory.stored.get(key, claim.uid))
        return memory.hooked.get(key, turn_of(pod, turn)) is not None

    def _with_spare(self, key: Key, seen: Seen) -> Seen:
        """Reserve a warm Pod if the decision would take one."""
        claim = seen.claim
        assert claim is not None, "only a Claim chooses"
        if claim.status.phase not in _OBTAINING or keeps_choice(seen, claim):
            return seen
        plan = decide(replace(seen, spare=_ANY))
        if not isinstance(plan, WriteIntent) or plan.intent != _ANY:
            return seen
        assert seen.workload is not None, "nothing is chosen without a workload"
        spare = self.spares.reserve(key, seen.workload.name, seen.workload.template)
        return replace(seen, spare=spare)


def _strays(claim: ClaimSeen | None, carrying: list[InstanceSeen]) -> tuple[InstanceSeen, ...]:
    """Return the Pods that carry this claim's name and are not the one it names."""
    return tuple(
        [pod for pod in carrying if not pod.terminating and (claim is None or not claim.owns(pod))]
    )
