"""What a Claim says on the wire."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from boilerhouse.core.condition import Condition, ConditionStatus
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import (
    ClaimSpec,
    ClaimStatus,
    Endpoint,
    Release,
    SnapshotRefs,
    Source,
)
from tests.tables.specs import CLAIM, LEAST

WHEN = datetime(2026, 4, 20, 10, 30, tzinfo=UTC)

STATUS = {
    "detail": "released by user",
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "InstanceReady",
            "status": "True",
            "lastTransitionTime": "2026-04-20T10:30:00Z",
            "reason": "Ready",
            "message": "",
        }
    ],
    "phase": "ReleaseFailed",
    "instanceId": "inst-user-123-my-agent-a1b2c3",
    "endpoint": {"host": "10.244.0.12", "port": 8080},
    "source": "pool+data",
    "claimedAt": "2026-04-20T10:30:00Z",
    "release": {
        "round": 2,
        "cause": "released",
        "drop": True,
        "savedOf": "pod-1/c1/0/0",
        "attempts": 3,
        "failedAt": "2026-04-20T10:30:00Z",
        "nextTryAt": "2026-04-20T10:30:00Z",
        "lastError": "disk full",
        "asked": True,
        "releasedAt": "2026-04-20T10:30:00Z",
    },
    "snapshot": {"base": "sha256:1", "restored": "sha256:1", "saved": "sha256:2"},
}


def test_a_claim_resumes_unless_told_otherwise() -> None:
    """Without a word, saved files are restored."""
    assert msgspec.convert(LEAST[CLAIM], ClaimSpec).resume is True


def test_status_survives_the_wire() -> None:
    """Every field of a status is read and written as it stands in the API."""
    status = msgspec.convert(STATUS, ClaimStatus)
    assert status == ClaimStatus(
        detail="released by user",
        observed_generation=1,
        conditions=(Condition("InstanceReady", ConditionStatus.TRUE, WHEN, "Ready", ""),),
        phase=ClaimPhase.RELEASE_FAILED,
        instance_id="inst-user-123-my-agent-a1b2c3",
        endpoint=Endpoint("10.244.0.12", 8080),
        source=Source.POOL_DATA,
        claimed_at=WHEN,
        release=Release(
            epoch=2,
            cause="released",
            drop=True,
            saved_of="pod-1/c1/0/0",
            attempts=3,
            failed_at=WHEN,
            next_try_at=WHEN,
            last_error="disk full",
            asked=True,
            released_at=WHEN,
        ),
        snapshot=SnapshotRefs("sha256:1", "sha256:1", "sha256:2"),
    )
    assert msgspec.json.decode(msgspec.json.encode(status)) == STATUS


def test_an_empty_status_is_pending() -> None:
    """What nobody has written yet is a claim that waits."""
    assert msgspec.convert({}, ClaimStatus).phase is ClaimPhase.PENDING


@pytest.mark.parametrize(
    "bad",
    [
        {"phase": "Sleeping"},
        {"source": "warm"},
        {"claimedAt": "2026-04-20T10:30:00"},
        {"endpoint": {"port": 70000}},
        {"release": {"attempts": -1}},
    ],
)
def test_bad_statuses_are_refused(bad: dict[str, object]) -> None:
    """Unknown phases and sources, times without a zone and impossible numbers do not decode."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, ClaimStatus)
