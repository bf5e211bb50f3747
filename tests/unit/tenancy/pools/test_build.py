"""What is written for a pool."""

from __future__ import annotations

import msgspec

from boilerhouse.tenancy.pools.build import label, owner, status_patch
from boilerhouse.tenancy.pools.model import PoolStatus
from boilerhouse.tenancy.pools.seen import PoolSeen

POOL = PoolSeen("warm", "u", "3", 1, "web", 2, 2, PoolStatus(detail="x"))


def test_the_owner_of_a_warm_pod() -> None:
    """By UID: a pool of the same name that is born later is another."""
    assert owner(POOL) == {
        "apiVersion": "boilerhouse.dev/v1alpha1",
        "kind": "BoilerhousePool",
        "name": "warm",
        "uid": "u",
        "controller": True,
    }


def test_the_label() -> None:
    """Only that one; what else is on the Pod stays."""
    assert label("ready") == {"labels": {"boilerhouse.dev/pool-status": "ready"}}


def test_the_status_is_its_difference() -> None:
    """Counters are spelled out even if they are zero, and were not written before."""
    after = msgspec.structs.replace(POOL.status, ready=2, detail="")
    changes = {"ready": 2, "warming": 0, "detail": None}
    assert status_patch(POOL.status, after) == {"status": changes}
    emptied = msgspec.structs.replace(after, ready=0)
    counters = {"ready": 0, "warming": 0}
    assert status_patch(after, emptied) == {"status": counters}
