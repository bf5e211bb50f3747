"""Gathers what a decision about a claim may look at.

claim informer ─┐
Pod informer ───┼─► Seen      a live GET wherever the caches say "absent",
workloads ──────┤             and of the Claim itself before anything is called a stray
spares, memory ─┘
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from boilerhouse.claims.decide import decide
from boilerhouse.claims.intent import Intent
from boilerhouse.claims.machine import ClaimPhase
from boilerhouse.claims.memory import Memory
from boilerhouse.claims.model import ClaimStatus
from boilerhouse.claims.objects import CLAIMS, Claim
from boilerhouse.claims.seen import ClaimSeen, Seen, WriteIntent
from boilerhouse.claims.spares import Spares
from boilerhouse.core import names
from boilerhouse.core.clock import Clock
from boilerhouse.instances.blueprints import Blueprints
from boilerhouse.instances.objects import Instances
from boilerhouse.instances.patience import Patience
from boilerhouse.instances.seen import ClaimRef, InstanceSeen
from boilerhouse.kube.cache import Index
from boilerhouse.kube.client import Client
from boilerhouse.kube.informer import Informer
from boilerhouse.kube.kinds import Pod
from boilerhouse.kube.resources import Key
from boilerhouse.kube.status import NotFound

# Stands for "some warm Pod" when decide is asked whether it would take one.
_ANY = Intent("any", "any")


def claim_of(pod: Pod) -> list[str]:
    """Return the name of the claim that a Pod carries: the values of an index."""
    ref = ClaimRef.parse(pod.metadata.annotations.get(names.CLAIM, ""))
    return [] if ref is None else [ref.name]


def claim_seen(claim: Claim) -> ClaimSeen:
    """Make of a Claim what decisions may know of it."""
    meta = claim.metadata
    status = claim.status or ClaimStatus()
    intent = Intent.parse(meta.annotations.get(names.POD, ""))
    if intent is None and status.instance_id:
        # Somebody took the annotation off. The instance is still this claim's, not a stray.
        intent = Intent(status.instance_id)
    return ClaimSeen(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        tenant=claim.spec.tenant_id,
        workload=claim.spec.workload_ref,
        status=status,
        intent=intent,
        finalizers=tuple(meta.finalizers),
        deleting=meta.deletion_timestamp is not None,
        release=names.RELEASE in meta.annotations,
    )


@dataclass(frozen=True, slots=True)
class Reader:
    """Where a claim's Seen comes from."""

    client: Client
    claims: Informer[Claim]
    instances: Instances
    by_claim: Index[Pod]  # Pods by the name of the claim they carry
    blueprints: Blueprints
    spares: Spares
    memory: Memory
    healthy: Callable[[str], bool]
    patience: Patience
    clock: Clock

    async def read(self, key: Key) -> Seen | None:
        """Return everything there is to see; None if there is neither claim nor Pod of it."""
        carrying = [self.instances.view(pod) for pod in self.by_claim.get(key.name)]
        held = self.claims.cache.get(key)
        claim = None if held is None else claim_seen(held)
        if claim is None or _strays(claim, carrying):
            # In this order: what the Pods carry was true before the server is asked for the claim,
            # so a claim that the server does not name then is no more, or never will be again.
            claim = await self._live(key)
        strays = _strays(claim, carrying)
        if claim is None:
            self.memory.forget(key)
            self.spares.give_back(key)
            return Seen(self.clock.now(), None, strays=strays) if strays else None
        pod = None
        if claim.intent is not None:
            pod = await self.instances.look(claim.intent.pod, claim.intent.uid)
            pod = None if pod is None else self.patience.timed(pod)
        seen = Seen(
            now=self.clock.now(),
            claim=claim,
            workload=await self.blueprints.look(claim.workload),
            pod=pod,
            pod_on_healthy_node=pod is None or self.healthy(pod.node),
            strays=strays,
            sole=self.memory.is_sole(key, claim),
            delivered=pod is not None and self.memory.is_delivered(key, pod.life),
            setback=self.memory.setbacks.of(key),
        )
        return self._with_spare(key, seen)

    def _with_spare(self, key: Key, seen: Seen) -> Seen:
        """Reserve a warm Pod if the decision would take one."""
        assert seen.claim is not None, "only a Claim chooses"
        if seen.claim.status.phase not in (ClaimPhase.PENDING, ClaimPhase.ERROR):
            return seen
        plan = decide(replace(seen, spare=_ANY))
        if not isinstance(plan, WriteIntent) or plan.intent != _ANY:
            return seen
        assert seen.workload is not None, "nothing is chosen without a workload"
        spare = self.spares.reserve(key, seen.workload.name, seen.workload.template)
        return replace(seen, spare=spare)

    async def _live(self, key: Key) -> ClaimSeen | None:
        try:
            found = await self.client.get(CLAIMS, key.name, namespace=key.namespace)
        except NotFound:
            cached = self.claims.cache.get(key)
            if cached is not None:
                self.claims.forget(cached)
            return None
        self.claims.observe(found)
        return claim_seen(found)


def _strays(claim: ClaimSeen | None, carrying: list[InstanceSeen]) -> tuple[InstanceSeen, ...]:
    """Return the Pods that carry this claim's name and are not the one it names."""
    intent = None if claim is None else claim.intent
    uid = None if claim is None else claim.uid

    def its_own(pod: InstanceSeen) -> bool:
        return (
            intent is not None
            and pod.claim is not None
            and pod.claim.uid == uid
            and pod.name == intent.pod
            and intent.uid in ("", pod.uid)
        )

    return tuple(pod for pod in carrying if not its_own(pod) and not pod.terminating)
