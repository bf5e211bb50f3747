"""What to do next about a class. Pure and total: Seen ─► Plan.

being deleted ─► engines name it? say so, and stay : let it go
otherwise     ─► how many engines name it, and whether its template is admissible
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import ConditionStatus, with_condition
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.classes.model import ClassStatus
from boilerhouse.engines.classes.seen import Plan, Seen

LOOK_AGAIN = timedelta(seconds=30)
SHOWN = 5  # engines named in a message

READY = "Ready"
ADMISSIBLE = "Admissible"
OPERATOR_OWNED = "OperatorOwnedFieldSet"
SPEC_NOT_USABLE = "SpecNotUsable"
DELETION_BLOCKED = "DeletionBlocked"

_YES, _NO = ConditionStatus.TRUE, ConditionStatus.FALSE


def decide(seen: Seen) -> Plan:
    """Return the next step, write or wait for one class."""
    if seen.klass.deleting:
        return _part(seen)
    if not seen.klass.held:
        return Do((AddFinalizer(),))
    if seen.refused:
        return _told(seen, _NO, OPERATOR_OWNED, "; ".join(seen.refused))
    if seen.unusable:
        return _told(seen, _NO, SPEC_NOT_USABLE, "; ".join(seen.unusable))
    return _told(seen, _YES, ADMISSIBLE, "")


def _part(seen: Seen) -> Plan:
    if not seen.engines:
        return Do((RemoveFinalizer(),)) if seen.klass.held else Wait("being deleted")
    named = ", ".join(seen.engines[:SHOWN])
    more = f" and {len(seen.engines) - SHOWN} more" if len(seen.engines) > SHOWN else ""
    return _told(seen, _NO, DELETION_BLOCKED, f"engines still name it: {named}{more}")


def _told(seen: Seen, status: ConditionStatus, reason: str, message: str) -> Plan:
    klass = seen.klass
    told: ClassStatus = structs.replace(
        klass.status,
        observed_generation=klass.generation,
        bound_engines=len(seen.engines),
        conditions=with_condition(
            klass.status.conditions,
            READY,
            status,
            reason,
            message,
            generation=klass.generation,
            now=seen.now,
        ),
    )
    return (
        Wait(message or "admissible", LOOK_AGAIN)
        if told == klass.status
        else WriteStatus(told, reason)
    )
