"""What is written for a pool, as plain data. Pure."""

from __future__ import annotations

from typing import Any

from boilerhouse.core import difference, names
from boilerhouse.tenancy.pools.model import RESOURCE, PoolStatus
from boilerhouse.tenancy.pools.seen import PoolSeen

Body = dict[str, Any]


def owner(pool: PoolSeen) -> Body:
    """Build the reference that a warm Pod has to its pool until a claim takes it."""
    return {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "name": pool.name,
        "uid": pool.uid,
        "controller": True,
    }


def label(status: str) -> Body:
    """Build the metadata that shows how far a warm Pod is."""
    return {"labels": {names.POOL_STATUS: status}}


def status_patch(before: PoolStatus, after: PoolStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided.

    Counters are always in it: zero is their default, which nobody has written yet for a new pool.
    """
    counters = {"ready": after.ready, "warming": after.warming}
    return {"status": {**difference.status_patch(before, after)["status"], **counters}}
