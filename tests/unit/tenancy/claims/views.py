"""Short ways to say what a claim's decision sees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from boilerhouse.core.names import FINALIZER, claim_name
from boilerhouse.core.stepfailure import StepFailure
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus
from boilerhouse.tenancy.claims.seen import ClaimSeen, Seen
from boilerhouse.tenancy.instances.seen import Blueprint, ClaimRef, InstanceSeen
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadSpec

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SPEC = msgspec.convert(
    {
        "version": "1",
        "image": {"ref": "host"},
        "resources": {"vcpus": 1, "memoryMb": 64, "diskGb": 1},
    },
    WorkloadSpec,
)
READY = Blueprint("web", WorkloadPhase.READY, template="t1", spec=SPEC)


def keeping(**changes: Any) -> Blueprint:
    """A workload whose instances have a directory that is saved; `changes` in its spec."""
    told = msgspec.to_builtins(SPEC) | {"filesystem": {"overlayDirs": ["/data"]}} | changes
    spec = msgspec.convert(told, WorkloadSpec)
    return Blueprint("web", WorkloadPhase.READY, template="t1", spec=spec)


NAME = claim_name("alice", "web")
WARM = Intent("warm-1", "pod-1")


def claim(phase: ClaimPhase = ClaimPhase.PENDING, **changes: Any) -> ClaimSeen:
    """A canonical Claim of alice on web, held by our finalizer."""
    status = changes.pop("status", ClaimStatus())
    base = ClaimSeen(
        name=NAME,
        uid="claim-1",
        version="7",
        generation=1,
        tenant="alice",
        workload="web",
        status=msgspec.structs.replace(status, phase=phase),
        finalizers=(FINALIZER,),
    )
    return replace(base, **changes)


def warm(**changes: Any) -> InstanceSeen:
    """A ready Pod of a pool that nobody has."""
    base = InstanceSeen(
        name="warm-1",
        uid="pod-1",
        version="3",
        workload="web",
        template="t1",
        created_at=NOW - timedelta(minutes=10),
        pool="pool",
        pool_status="ready",
        source="pool",
        node="n1",
        ip="10.0.0.1",
        port=8080,
        running=True,
        ready=True,
    )
    return replace(base, **changes)


def bound(**changes: Any) -> InstanceSeen:
    """The same Pod after the claim took it."""
    ours = {"claim": ClaimRef(NAME, "claim-1"), "tenant": "alice", "pool": "", "pool_status": ""}
    return warm(**{**ours, **changes})


def full(**changes: Any) -> InstanceSeen:
    """The bound Pod of a workload that keeps files: its process and its agent run."""
    inside = {"overlays": True, "container": "c1", "tenant_runs": True, "agent_runs": True}
    return bound(**{**inside, **changes})


def seen(of: ClaimSeen | None, **changes: Any) -> Seen:
    return replace(Seen(now=NOW, claim=of, workload=READY, sole=True), **changes)


def failure(step: str, *, count: int = 1, refused: bool = False, due: float = 5) -> StepFailure:
    return StepFailure(step, "because", count, refused, timedelta(seconds=due))
