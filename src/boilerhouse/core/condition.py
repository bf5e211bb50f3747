"""Conditions: what is true of an object besides its phase, and since when.

The standard Kubernetes shape, so that `kubectl wait --for=condition=…` works. Pure: the caller
brings `now`, and gets an equal value back when nothing changed, so that nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from boilerhouse.core.schema import Int64, doc, keyed_by


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that is true, false or unknown about the object, and since when."""

    type: Annotated[
        str,
        Meta(min_length=1, max_length=316, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?\Z"),
        doc("What is stated."),
    ]
    status: Annotated[ConditionStatus, doc("Whether it is so.")]
    last_transition_time: Annotated[
        datetime, Meta(tz=True), doc("When `status` last became what it is.")
    ]
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z"),
        doc("Why, as one CamelCase word for programs."),
    ]
    message: Annotated[str, Meta(max_length=32768), doc("Why, as a sentence for people.")]
    observed_generation: Annotated[
        Int64, Meta(ge=0), doc("The metadata.generation that this was stated of.")
    ] = 0


Conditions = Annotated[
    tuple[Condition, ...],
    keyed_by("type"),
    doc("What is true of the object besides its phase, one entry per type."),
]


def with_condition(
    conditions: tuple[Condition, ...],
    type: str,  # noqa: A002  the field's name on the wire
    status: ConditionStatus,
    reason: str,
    message: str = "",
    *,
    generation: int = 0,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the conditions with this one stated, in its old place or at the end.

    The time of transition is kept while `status` stays the same, whatever the reason becomes.
    """
    old = find(conditions, type)
    if old is not None and old.status == status:
        since = old.last_transition_time
    else:
        # The wire counts in seconds; more would differ from what is read back.
        since = now.replace(microsecond=0)
    stated = Condition(type, status, since, reason, message, generation)
    if old is None:
        return (*conditions, stated)
    if old == stated:
        return conditions
    return tuple([stated if one is old else one for one in conditions])


def find(conditions: Sequence[Condition], type: str) -> Condition | None:  # noqa: A002  its name
    """Return the condition of a type, or None if nothing was stated yet."""
    for condition in conditions:
        if condition.type == type:
            return condition
    return None
