"""What is written for a claim, as plain data. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339, rfc3339_micro
from boilerhouse.tenancy.claims.deciding.epochs import release_of
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.seen import ClaimSeen
from boilerhouse.tenancy.instances.seen import ClaimRef, RestoredSeen

Body = dict[str, Any]


def claim_body(
    tenant: str, workload: str, *, resume: bool, intent: Intent | None, now: datetime
) -> Body:
    """Build the canonical Claim of a tenant, with its finalizer and, if chosen, its intent."""
    annotations = {names.LAST_ACTIVITY: rfc3339_micro(now)}
    if intent is not None:
        annotations[names.POD] = str(intent)
    return {
        "metadata": {
            "name": names.claim_name(tenant, workload),
            "labels": {names.TENANT: names.label_value(tenant), names.WORKLOAD: workload},
            "annotations": annotations,
            "finalizers": [names.FINALIZER],
        },
        "spec": {"tenantId": tenant, "workloadRef": workload, "resume": resume},
    }


def binding(claim: ClaimRef, tenant: str) -> Body:
    """Build the metadata that gives a warm Pod to a claim and takes it out of its pool.

    Decided for a Pod that has no claim. It is merged into one that is still as it was seen, and
    into no other (`Instances.patch`).
    """
    return {
        "annotations": {names.CLAIM: str(claim), names.TENANT_ID: tenant},
        "labels": {
            names.TENANT: names.label_value(tenant),
            names.POOL: None,
            names.POOL_STATUS: None,
        },
        "ownerReferences": None,
    }


def intent_patch(claim: ClaimSeen, intent: Intent | None) -> Body:
    """Build the merge patch that chooses a Pod, or none, and holds the Claim from then on."""
    held = claim.finalizers if claim.held else (*claim.finalizers, names.FINALIZER)
    return {
        "metadata": {
            "annotations": {names.POD: None if intent is None else str(intent)},
            "finalizers": list(held),
        }
    }


def activity_patch(now: datetime) -> Body:
    """Build the merge patch that notes activity."""
    annotations = {names.LAST_ACTIVITY: rfc3339_micro(now)}
    return {"metadata": {"annotations": annotations}}


def wanted_back(claim: ClaimSeen, now: datetime) -> Body:
    """Build the merge patch by which a tenant wants back what could not be saved; see epochs.py."""
    annotations = {
        names.CLAIMED_AGAIN: str(release_of(claim.status).epoch + 1),
        names.LAST_ACTIVITY: rfc3339_micro(now),
        names.RELEASE: None,
        names.RELEASE_FORCE: None,
    }
    return {"metadata": {"annotations": annotations}}


def wish_to_go(claim: ClaimSeen, now: datetime, *, release: bool, force: bool) -> Body:
    """Build the merge patch by which a tenant's instance is to go, now if an earlier try failed.

    With `release` the Claim goes, too. With `force` nothing needs to be saved.
    """
    annotations = {}
    if release:
        annotations[names.RELEASE] = rfc3339(now)
    if claim.status.phase == ClaimPhase.RELEASE_FAILED:
        annotations[names.RELEASE_RETRY] = str(release_of(claim.status).epoch)
    if force:
        annotations[names.RELEASE_FORCE] = rfc3339(now)
    return {"metadata": {"annotations": annotations}}


def restored_note(restored: RestoredSeen) -> Body:
    """Build the metadata that says whose files are in a Pod that has none yet."""
    return {"annotations": {names.RESTORED: str(restored)}}
