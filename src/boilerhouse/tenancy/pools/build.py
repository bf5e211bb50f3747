"""What is written for a pool, as plain data. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.core.difference import difference
from boilerhouse.tenancy.pools.model import RESOURCE, PoolStatus
from boilerhouse.tenancy.pools.seen import PoolSeen

Body = dict[str, Any]


def owner(pool: PoolSeen) -> Body:
    """Build the reference that a warm Pod has to its pool until a claim takes it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": RESOURCE.kind,
        "name": pool.name,
        "uid": pool.uid,
        "controller": True,
    }


def label(status: str) -> Body:
    """Build the metadata that shows how far a warm Pod is."""
    return {"labels": {names.POOL_STATUS: status}}


def finalizers_patch(pool: PoolSeen, *, held: bool) -> Body:
    """Build the merge patch that puts our finalizer on, or takes it, and no other, off."""
    others = [finalizer for finalizer in pool.finalizers if finalizer != names.FINALIZER]
    wanted = [*others, names.FINALIZER] if held else others
    return {"metadata": {**_as_seen(pool), "finalizers": wanted or None}}


def status_patch(pool: PoolSeen, status: PoolStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided.

    Counters are always in it: zero is their default, which nobody has written yet for a new pool.
    """
    counters = {"ready": status.ready, "warming": status.warming}
    changes = difference(_plain(pool.status), _plain(status))
    return {"metadata": _as_seen(pool), "status": {**changes, **counters}}


def _as_seen(pool: PoolSeen) -> Body:
    return {"uid": pool.uid, "resourceVersion": pool.version}


def _plain(status: PoolStatus) -> Body:
    # The first phase is a default, which is left out; but a phase that was written must stay.
    plain: Body = msgspec.to_builtins(status)
    return {**plain, "phase": str(status.phase)}
