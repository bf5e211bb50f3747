"""What a claim holds on to: the Pod it means, and its workload. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from boilerhouse.core import names
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.reading.holdings import phase_of


def intended(claim: Claim) -> list[str]:
    """Return the name of the Pod that a claim has chosen: the values of an index."""
    if phase_of(claim) == ClaimPhase.RELEASED:
        return []
    intent = Intent.parse(claim.metadata.annotations.get(names.POD, ""))
    return [] if intent is None else [intent.pod]


def keeps(claim: Claim) -> bool:
    """Whether a claim keeps its workload: not if it is over, or was refused and has no Pod.

    One that is refused because the workload is going would otherwise keep it from going.
    """
    if phase_of(claim) == ClaimPhase.ERROR:
        return bool(intended(claim))
    return phase_of(claim) != ClaimPhase.RELEASED


def needing(claims: Iterable[Claim], workload: str) -> tuple[str, ...]:
    """Return the names of those that keep a workload."""
    return tuple(
        claim.metadata.name
        for claim in claims
        if claim.spec.workload_ref == workload and keeps(claim)
    )
