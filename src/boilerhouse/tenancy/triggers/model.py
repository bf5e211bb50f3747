"""What a Trigger says: BoilerhouseTrigger as Structs, and the resource made of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from boilerhouse.core.crd import Column, CustomResource
from boilerhouse.core.model import Model, Status, TenantId, WorkloadRef
from boilerhouse.core.names import NAME_LIMIT, TENANT_PATTERN, TENANT_RULE, is_tenant_id
from boilerhouse.core.patterns import DNS_LABEL, in_cel
from boilerhouse.core.rules import Rule, exactly_one_of
from boilerhouse.core.schema import FreeForm, doc
from boilerhouse.tenancy.triggers.machine import TRIGGER, TriggerPhase


class TriggerType(StrEnum):
    """Where events come from."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TELEGRAM = "telegram"
    CRON = "cron"


class GuardType(StrEnum):
    """Who is asked whether an event may pass.

    A closed list: a guard that nobody knows must be refused, since skipping it lets all in.
    """

    ALLOWLIST = "allowlist"
    API = "api"


_WHOLE = "((has(self.prefix) ? self.prefix : '') + self.static)"


class TriggerTenant(Model, frozen=True):
    """Which tenant an event is for: always the same one, or the one that the event names."""

    RULES: ClassVar = (
        exactly_one_of("static", "from"),
        Rule(
            cel=f"!has(self.static) || {_WHOLE}.matches({in_cel(TENANT_PATTERN)})"
            f" && size(bytes({_WHOLE})) <= 200",
            message=f"prefix and static together: {TENANT_RULE}",
            holds=lambda tenant: (
                tenant.static is None or is_tenant_id(tenant.prefix + tenant.static)
            ),
            beyond_cel=True,
        ),
    )

    static: Annotated[TenantId, doc("The tenant of every event, after the prefix.")] | None = None
    from_: (
        Annotated[
            str,
            Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+\Z"),
            doc("Path of the field, in the event's own data, that names the tenant."),
        ]
        | None
    ) = field(default=None, name="from")
    prefix: Annotated[
        str,
        Meta(max_length=64, pattern=r"^([^./\\\x00-\x1f\x7f-\x9f][^/\\\x00-\x1f\x7f-\x9f]*)?\Z"),
        doc("Put before the tenant, to keep the tenants of one source apart from all others."),
    ] = ""


class Guard(Model, frozen=True):
    """One check that an event must pass. Guards are asked in order; the first refusal is final."""

    type: Annotated[GuardType, doc("Which check.")]
    config: Annotated[FreeForm, doc("Settings of that check.")] = field(default_factory=dict)


class TriggerSpec(Model, frozen=True):
    """What to listen to, whom to wake, and how to hand the event over."""

    type: Annotated[TriggerType, doc("Where events come from.")]
    workload_ref: WorkloadRef
    tenant: TriggerTenant
    driver: Annotated[
        str,
        Meta(min_length=1, max_length=NAME_LIMIT, pattern=DNS_LABEL),
        doc("How an event is handed to the instance."),
    ] = "default"
    driver_options: Annotated[FreeForm, doc("Settings of the driver.")] = field(
        default_factory=dict
    )
    guards: Annotated[
        tuple[Guard, ...], Meta(max_length=32), doc("Checks that every event must pass.")
    ] = ()
    config: Annotated[FreeForm, doc("Settings of the source, by type.")] = field(
        default_factory=dict
    )


class TriggerStatus(Status, frozen=True):
    """Whether the trigger listens. The operator writes it, everyone reads it."""

    phase: TriggerPhase = TRIGGER.initial


RESOURCE = CustomResource(
    kind="BoilerhouseTrigger",
    short_name="bht",
    doc="A trigger wakes a tenant's instance when something happens outside, and tells it.",
    spec=TriggerSpec,
    status=TriggerStatus,
    machine=TRIGGER,
    columns=(
        Column("Type", ".spec.type"),
        Column("Workload", ".spec.workloadRef"),
        Column("Phase", ".status.phase"),
    ),
)
