"""What is written for a claim, as plain data. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from boilerhouse.claims.intent import Intent
from boilerhouse.claims.model import ClaimStatus
from boilerhouse.claims.seen import ClaimSeen
from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339
from boilerhouse.core.difference import difference
from boilerhouse.instances.seen import ClaimRef

Body = dict[str, Any]


def claim_body(
    tenant: str, workload: str, *, resume: bool, intent: Intent | None, now: datetime
) -> Body:
    """Build the canonical Claim of a tenant, with its finalizer and, if chosen, its intent."""
    annotations = {names.LAST_ACTIVITY: rfc3339(now)}
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


def binding(claim: ClaimRef, tenant: str) -> list[Body]:
    """Build the patch that gives a warm Pod to a claim and takes it out of its pool.

    The first operation fails if the Pod has a claim; whoever sends it adds the tests of UID and
    resourceVersion. The labels of the pool must be there: without them it is no warm Pod.
    """
    return [
        {"op": "test", "path": _annotation(names.CLAIM), "value": None},
        {"op": "add", "path": _annotation(names.CLAIM), "value": str(claim)},
        {"op": "add", "path": _annotation(names.TENANT_ID), "value": tenant},
        {"op": "add", "path": _label(names.TENANT), "value": names.label_value(tenant)},
        {"op": "remove", "path": _label(names.POOL)},
        {"op": "remove", "path": _label(names.POOL_STATUS)},
        {"op": "add", "path": "/metadata/ownerReferences", "value": []},
    ]


def intent_patch(claim: ClaimSeen, intent: Intent | None) -> Body:
    """Build the merge patch that chooses a Pod, or none, and holds the Claim from then on."""
    held = claim.finalizers if claim.held else (*claim.finalizers, names.FINALIZER)
    return {
        "metadata": {
            **_as_seen(claim),
            "annotations": {names.POD: None if intent is None else str(intent)},
            "finalizers": list(held),
        }
    }


def status_patch(claim: ClaimSeen, status: ClaimStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided."""
    changes = difference(_plain(claim.status), _plain(status))
    return {"metadata": _as_seen(claim), "status": changes}


def finalizer_patch(claim: ClaimSeen) -> Body:
    """Build the merge patch that takes our finalizer, and no other, off."""
    left = [finalizer for finalizer in claim.finalizers if finalizer != names.FINALIZER]
    return {"metadata": {**_as_seen(claim), "finalizers": left or None}}


def _as_seen(claim: ClaimSeen) -> Body:
    return {"uid": claim.uid, "resourceVersion": claim.version}


def _plain(status: ClaimStatus) -> Body:
    # The first phase is a default, which is left out; but a phase that was written must stay.
    plain: Body = msgspec.to_builtins(status)
    return {**plain, "phase": str(status.phase)}


def _annotation(name: str) -> str:
    return f"/metadata/annotations/{name.replace('/', '~1')}"


def _label(name: str) -> str:
    return f"/metadata/labels/{name.replace('/', '~1')}"
