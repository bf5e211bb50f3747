"""What is written for a claim."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from boilerhouse.core.difference import finalizers_patch, status_patch
from boilerhouse.core.names import FINALIZER, label_value
from boilerhouse.tenancy.claims import build
from boilerhouse.tenancy.claims.build import (
    binding,
    claim_body,
    intent_patch,
)
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Endpoint, Release
from boilerhouse.tenancy.instances.seen import ClaimRef, RestoredSeen
from tests.unit.tenancy.claims.views import NAME, claim

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_the_claim_that_the_api_makes() -> None:
    """Finalizer and intent come with the object, so that a warm claim is three writes."""
    body = claim_body("alice", "web", resume=True, intent=Intent("p", "u"), now=NOW)
    assert body == {
        "metadata": {
            "name": NAME,
            "labels": {"boilerhouse.dev/tenant": "alice", "boilerhouse.dev/workload": "web"},
            "annotations": {
                "boilerhouse.dev/last-activity": "2026-05-01T12:00:00.000000Z",
                "boilerhouse.dev/pod": "p/u",
            },
            "finalizers": ["boilerhouse.dev/cleanup"],
        },
        "spec": {"tenantId": "alice", "workloadRef": "web", "resume": True},
    }
    without = claim_body("alice", "web", resume=False, intent=None, now=NOW)
    assert "boilerhouse.dev/pod" not in without["metadata"]["annotations"]


def test_the_bind() -> None:
    """Names the claim and its tenant, and takes labels and owner of the pool off."""
    assert binding(ClaimRef("c", "u"), "org:acme") == {
        "annotations": {"boilerhouse.dev/claim": "c/u", "boilerhouse.dev/tenant-id": "org:acme"},
        "labels": {
            "boilerhouse.dev/tenant": label_value("org:acme"),
            "boilerhouse.dev/pool": None,
            "boilerhouse.dev/pool-status": None,
        },
        "ownerReferences": None,
    }


def test_choosing_holds_the_claim() -> None:
    """Other finalizers stay; choosing nothing takes the annotation off."""
    fresh = claim(finalizers=("example.com/x",))
    assert intent_patch(fresh, Intent("p")) == {
        "metadata": {
            "annotations": {"boilerhouse.dev/pod": "p/"},
            "finalizers": ["example.com/x", FINALIZER],
        }
    }
    none = intent_patch(claim(), None)["metadata"]
    assert (none["annotations"], none["finalizers"]) == (
        {"boilerhouse.dev/pod": None},
        [FINALIZER],
    )


def test_a_status_is_its_difference() -> None:
    """What goes is null, what stays is not said, the first phase is spelled out."""
    before = ClaimStatus(detail="x", endpoint=Endpoint("h", 1))
    seen = claim(ClaimPhase.ERROR, status=before)
    after = msgspec.structs.replace(seen.status, phase=ClaimPhase.PENDING, detail="")
    assert status_patch(seen.status, after) == {"status": {"phase": "Pending", "detail": None}}
    moved = msgspec.structs.replace(seen.status, endpoint=Endpoint("h", 2))
    assert status_patch(seen.status, moved)["status"] == {"endpoint": {"port": 2}}


def test_only_our_finalizer_goes() -> None:
    """And nothing is left of the list if it was the only one."""
    assert finalizers_patch((FINALIZER,), held=False) == {"metadata": {"finalizers": None}}
    two = finalizers_patch((FINALIZER, "example.com/x"), held=False)
    assert two["metadata"]["finalizers"] == ["example.com/x"]


def test_wishes_name_the_round_they_mean() -> None:
    """And nothing else."""
    failed = claim(ClaimPhase.RELEASE_FAILED, status=ClaimStatus(release=Release(epoch=4)))
    now, micro = "2026-05-01T12:00:00Z", "2026-05-01T12:00:00.000000Z"
    assert build.wanted_back(failed, NOW) == {
        "metadata": {
            "annotations": {
                "boilerhouse.dev/claimed-again": "5",
                "boilerhouse.dev/last-activity": micro,
                "boilerhouse.dev/release": None,
                "boilerhouse.dev/release-force": None,
            },
        }
    }
    assert build.wish_to_go(failed, NOW, release=False, force=False) == {
        "metadata": {"annotations": {"boilerhouse.dev/release-retry": "4"}}
    }
    assert build.wish_to_go(claim(), NOW, release=True, force=True) == {
        "metadata": {
            "annotations": {"boilerhouse.dev/release": now, "boilerhouse.dev/release-force": now},
        }
    }
    assert build.activity_patch(NOW) == {
        "metadata": {"annotations": {"boilerhouse.dev/last-activity": micro}}
    }


def test_whose_files_are_in_a_pod() -> None:
    """Is written in one annotation: which version, and which container had other files before."""
    assert build.restored_note(RestoredSeen("d1", "c1")) == {
        "annotations": {"boilerhouse.dev/restored": "d1/c1"}
    }
