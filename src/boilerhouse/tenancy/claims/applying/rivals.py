"""Two Claim objects for one (tenant, workload): who may have the instance.

A Claim under its canonical name needs no lock but that name. One that was applied under another
name takes the Lease `t-<hash>`, and keeps it as long as it exists. Each then looks, live, for the
other's sign:

    canonical:  create Claim ──► is the Lease held by a claim that lives?   ──► that one has it
    other name: take Lease   ──► is there a canonical Claim?                ──► that one has it

Whoever writes its own sign first and looks second cannot miss one that did the same, so at most one
of them goes on. If both see each other, the one under another name goes to Error, and a claim in
Error does not count: the canonical one succeeds at its next look. For that to be safe

* "nobody else" holds for a claim under another name only at the version at which it looked, so one
  that has been in Error since must look again before it can become Active, and then finds the
  canonical one. (Found by simulation: with a look that held for ever, both became Active.)
* for a canonical claim it holds for ever: whoever comes later finds it there.

A Released claim is no rival: it never gets an instance.
"""

from __future__ import annotations

from boilerhouse.core.errors import Retry
from boilerhouse.core.names import API_VERSION, claim_lease_name, claim_name
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Lease
from boilerhouse.platform.kube.resources import LEASES
from boilerhouse.platform.kube.status import AlreadyExists, Conflict, NotFound
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import RESOURCE
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.claims.seen import ClaimSeen
from boilerhouse.tenancy.instances.seen import ClaimRef

_OVER = frozenset({ClaimPhase.RELEASED})
_YIELDING = _OVER | {ClaimPhase.ERROR}


class Rivals:
    """Looks for other Claim objects of the same tenant and workload."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, claim: ClaimSeen) -> str:
        """Return the name of the claim that has the tenant; empty if this one is alone."""
        if claim.canonical:
            lease = await self._lease(claim)
            return "" if lease is None else await self._living(lease, claim, _YIELDING)
        canonical = claim_name(claim.tenant, claim.workload)
        if await self._lives(canonical):  # proves nothing if not, and saves a write if so
            return canonical
        holder = await self._take(claim)
        if holder:
            return holder
        return canonical if await self._lives(canonical) else ""

    async def _take(self, claim: ClaimSeen) -> str:
        """Take the Lease, or return the name of the living claim that holds it."""
        owner = {
            "apiVersion": API_VERSION,
            "kind": RESOURCE.kind,
            "name": claim.name,
            "uid": claim.uid,
        }
        body = {
            "metadata": {
                "name": claim_lease_name(claim.tenant, claim.workload),
                "ownerReferences": [owner],  # it goes with the claim
            },
            "spec": {"holderIdentity": str(claim.ref)},
        }
        try:
            await self._client.create(LEASES, body)
        except AlreadyExists:
            lease = await self._lease(claim)
            if lease is None:
                raise Retry("the Lease went away just now") from None
            if lease.spec.holder_identity == str(claim.ref):
                return ""
            living = await self._living(lease, claim)
            if living:
                return living
            await self._drop(lease)
            raise Retry("the Lease of a claim that is gone was removed") from None
        return ""

    async def _lease(self, claim: ClaimSeen) -> Lease | None:
        name = claim_lease_name(claim.tenant, claim.workload)
        # Its own sign may have been written ahead: so must the other's be read.
        return await self._client.find(LEASES, name, deferred=True)

    async def _drop(self, lease: Lease) -> None:
        meta = lease.metadata
        try:
            await self._client.delete(
                LEASES, meta.name, uid=meta.uid, resource_version=meta.resource_version
            )
        except (NotFound, Conflict):
            return  # somebody was faster; the next look tells

    async def _living(
        self, lease: Lease, claim: ClaimSeen, not_counting: frozenset[ClaimPhase] = _OVER
    ) -> str:
        """Return the name of the Lease's holder if it is another claim that lives."""
        holder = ClaimRef.parse(lease.spec.holder_identity or "")
        if holder is None or holder == claim.ref:
            return ""
        lives = await self._lives(holder.name, holder.uid, not_counting)
        return holder.name if lives else ""

    async def _lives(
        self, name: str, uid: str = "", not_counting: frozenset[ClaimPhase] = _OVER
    ) -> bool:
        found = await self._client.find(CLAIMS, name)
        if found is None:
            return False
        phase = ClaimPhase.PENDING if found.status is None else found.status.phase
        return phase not in not_counting and uid in ("", found.metadata.uid)
