"""Instances in every phase, as a decision sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from boilerhouse.engines.children import Child, State
from boilerhouse.engines.instances.machine import InstancePhase
from boilerhouse.engines.instances.model import InstanceSpec, InstanceStatus
from boilerhouse.engines.instances.seen import InstanceSeen, Seen
from boilerhouse.engines.names import INSTANCE_FINALIZER

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
P = InstancePhase
SOUND, TAMPERED, GOING, FOREIGN = (
    Child(state, "u", "1")
    for state in (State.SOUND, State.TAMPERED, State.TERMINATING, State.FOREIGN)
)


def spec(**metadata: Any) -> InstanceSpec:
    return msgspec.convert({"id": ID, "metadata": metadata, "gateway": {}}, InstanceSpec)


def instance(phase: InstancePhase = P.PROVISIONING, **changes: Any) -> InstanceSeen:
    base = InstanceSeen(
        "i", "ns", "u", "7", 3, spec(), InstanceStatus(phase=phase), (INSTANCE_FINALIZER,)
    )
    return replace(base, **changes)


def seen(of: InstanceSeen, **changes: Any) -> Seen:
    whole = {"statefulset": SOUND, "service": SOUND, "ready": True}
    return replace(Seen(NOW, of), **{**whole, **changes})
