"""What to do next about a trigger. Pure: Seen ─► Plan.

Nothing listens for events yet, so every trigger is in Error and says so: one that looked Active and
never fired would be worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from boilerhouse.core.condition import ConditionStatus, with_condition
from boilerhouse.core.plan import Wait, WriteStatus
from boilerhouse.tenancy.triggers.machine import TRIGGER, TriggerPhase
from boilerhouse.tenancy.triggers.model import TriggerStatus

ADAPTER_READY = "AdapterReady"
REASON = "NotBuilt"
NOT_BUILT = (
    "triggers are not built yet: nothing listens, and no event will wake a tenant; until they are,"
    " let your own program call POST /api/v1/tenants/{id}/claim"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A Trigger at one moment."""

    now: datetime
    name: str
    uid: str
    version: str
    generation: int
    status: TriggerStatus


Plan = WriteStatus[TriggerStatus] | Wait


def decide(seen: Seen) -> Plan:
    """Say that it does not listen, once for each spec."""
    before = seen.status
    status = structs.replace(
        before,
        phase=TRIGGER.move(before.phase, TriggerPhase.ERROR),
        detail=NOT_BUILT,
        observed_generation=seen.generation,
        conditions=with_condition(
            before.conditions,
            ADAPTER_READY,
            ConditionStatus.FALSE,
            REASON,
            NOT_BUILT,
            generation=seen.generation,
            now=seen.now,
        ),
    )
    return Wait(NOT_BUILT) if status == before else WriteStatus(status, REASON)
