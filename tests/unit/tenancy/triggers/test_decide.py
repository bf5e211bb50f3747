"""Triggers are not built, and say so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.plan import Wait, WriteStatus
from boilerhouse.tenancy.triggers.decide import NOT_BUILT, Seen, decide
from boilerhouse.tenancy.triggers.machine import TriggerPhase
from boilerhouse.tenancy.triggers.model import TriggerStatus

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NEW = Seen(NOW, "nightly", "u", "1", 1, TriggerStatus())


def test_a_trigger_is_in_error_until_triggers_are_built() -> None:
    """The detail and the condition say why; written once, and again for another spec."""
    plan = decide(NEW)
    assert isinstance(plan, WriteStatus)
    assert (plan.status.phase, plan.status.detail) == (TriggerPhase.ERROR, NOT_BUILT)
    ready = find(plan.status.conditions, "AdapterReady")
    assert ready is not None
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "NotBuilt")
    later = replace(NEW, now=NOW + timedelta(hours=1), status=plan.status)
    assert decide(later) == Wait(NOT_BUILT)
    assert isinstance(decide(replace(later, generation=2)), WriteStatus)
