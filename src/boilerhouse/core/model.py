"""What the models of all kinds share: the base class and the fields that each of them has.

Kinds do not import each other, so what two of them need lives here.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from boilerhouse.core.condition import Conditions
from boilerhouse.core.names import NAME_LIMIT, TENANT_PATTERN, TENANT_RULE
from boilerhouse.core.patterns import DNS_LABEL, MEANING
from boilerhouse.core.schema import Int64, doc


class Model(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of a spec or a status: camelCase on the wire, unknown fields ignored."""


class Status(Model, frozen=True):
    """What the operator last saw and did. The operator writes it, everyone reads it."""

    detail: Annotated[str, doc("Why the phase is what it is, as a sentence for people.")] = ""
    observed_generation: Annotated[
        Int64, Meta(ge=0), doc("The metadata.generation that this status speaks of.")
    ] = 0
    conditions: Conditions = ()


WorkloadRef = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_LIMIT,
        pattern=DNS_LABEL,
        extra={MEANING: "a name of lower-case letters, digits and hyphens"},
    ),
    doc("Name of the BoilerhouseWorkload, in the same namespace."),
]

TenantId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=TENANT_PATTERN,
        extra={MEANING: f"valid: {TENANT_RULE}"},
    ),
    doc(f"Who the instance is for: {TENANT_RULE}."),
]
