"""Which Claims a tenant has on a workload, whatever their names.

(tenant, workload) ─► canonical name, Lease `t-<hash>`, informer ─► Holdings.find ─► Claims, live

The API makes Claims under the canonical name; people may apply one under any other. Whoever asks
for a tenant must find both. The canonical name and the Lease are asked of the server: between them
no claim that has, or may get, the instance can hide (rivals.py). The informer adds those that wait
in Error behind another, which have nothing to hide.
"""

from __future__ import annotations

from dataclasses import dataclass

from boilerhouse.core import names
from boilerhouse.platform.kube.cache import Index
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import LEASES
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.instances.seen import ClaimRef

Tenancy = tuple[str, str]  # tenant, workload

# Who speaks for the tenant if there are several: the one with the instance, or closest to it.
_ORDER = (
    ClaimPhase.ACTIVE,
    ClaimPhase.RELEASE_FAILED,
    ClaimPhase.RELEASING,
    ClaimPhase.PENDING,
    ClaimPhase.ERROR,
    ClaimPhase.RELEASED,
)


def tenancy(claim: Claim) -> Tenancy:
    """Return what a Claim is for: names are hashes or free, so its spec is asked."""
    return claim.spec.tenant_id, claim.spec.workload_ref


def phase_of(claim: Claim) -> ClaimPhase:
    return ClaimPhase.PENDING if claim.status is None else claim.status.phase


@dataclass(frozen=True, slots=True)
class Holdings:
    """`by_tenancy` is the informer's index of Claims by `tenancy`."""

    client: Client
    by_tenancy: Index[Claim]

    def likely(self, tenant: str, workload: str) -> str:
        """Return the name under which to look first, by what the informer knows."""
        canonical = names.claim_name(tenant, workload)
        held = [
            claim
            for claim in self.by_tenancy.get((tenant, workload))
            if phase_of(claim) != ClaimPhase.RELEASED
        ]
        if not held or any(claim.metadata.name == canonical for claim in held):
            return canonical
        return min(held, key=_standing).metadata.name

    async def find(self, tenant: str, workload: str) -> list[Claim]:
        """Return the tenant's Claims as the server has them, the one that counts first."""
        canonical = names.claim_name(tenant, workload)
        known = {claim.metadata.name for claim in self.by_tenancy.get((tenant, workload))}
        first = await self.client.find(CLAIMS, canonical)
        if first is None or phase_of(first) != ClaimPhase.ACTIVE:
            known.add(await self._holder(tenant, workload))
        others = [await self.client.find(CLAIMS, name) for name in sorted(known - {canonical, ""})]
        found = [
            claim
            for claim in (first, *others)
            if claim is not None and tenancy(claim) == (tenant, workload)
        ]
        return sorted(found, key=_standing)

    async def _holder(self, tenant: str, workload: str) -> str:
        """Return the name of the Claim that has the Lease; empty if there is none."""
        lease = await self.client.find(LEASES, names.claim_lease_name(tenant, workload))
        if lease is None:
            return ""
        holder = ClaimRef.parse(lease.spec.holder_identity or "")
        return "" if holder is None else holder.name


def _standing(claim: Claim) -> int:
    return _ORDER.index(phase_of(claim))
