"""What a Claim says: BoilerhouseClaim as Structs, and the resource made of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from boilerhouse.core.crd import Column, CustomResource
from boilerhouse.core.model import Model, Status, TenantId, WorkloadRef
from boilerhouse.core.names import TENANT_RULE, is_tenant_id
from boilerhouse.core.rules import Rule, immutable
from boilerhouse.core.schema import Int32, doc
from boilerhouse.tenancy.claims.machine import CLAIM, ClaimPhase


class Source(StrEnum):
    """How a tenant came by its instance (S1)."""

    EXISTING = "existing"
    COLD = "cold"
    COLD_DATA = "cold+data"
    POOL = "pool"
    POOL_DATA = "pool+data"


class ClaimSpec(Model, frozen=True):
    """Who wants an instance of what."""

    RULES: ClassVar = (
        immutable("the spec of a claim"),
        Rule(
            cel="size(bytes(self.tenantId)) <= 200",
            message=TENANT_RULE,
            holds=lambda spec: is_tenant_id(spec.tenant_id),
            field="tenantId",
            beyond_cel=True,
        ),
    )

    tenant_id: TenantId
    workload_ref: WorkloadRef
    resume: Annotated[
        bool,
        doc(
            "Whether to restore the tenant's saved files. False starts clean: they stay stored as a"
            " version that is never pruned, and what this instance leaves becomes current when it"
            " is released."
        ),
    ] = True


class Endpoint(Model, frozen=True):
    """Where the instance can be reached."""

    host: Annotated[str, doc("Address of the instance.")] = ""
    port: Annotated[
        Int32, Meta(ge=0, le=65535), doc("First exposed port; absent if none is exposed.")
    ] = 0


class Release(Model, frozen=True):
    """How far a release has come, and what becomes of one that fails."""

    epoch: Annotated[
        Int32,
        Meta(ge=0),
        doc(
            "Counts releases and re-attachments; orders to the instance that name an older round"
            " are refused."
        ),
    ] = field(default=0, name="round")
    cause: Annotated[str, doc("Why the instance is released, as a sentence for people.")] = ""
    drop: Annotated[bool, doc("Whether the instance goes without being saved.")] = False
    saved_of: Annotated[
        str,
        doc("Which life of the instance was saved: if it has begun another, it is saved again."),
    ] = ""
    attempts: Annotated[Int32, Meta(ge=0), doc("Tries to save so far.")] = 0
    failed_at: (
        Annotated[datetime, Meta(tz=True), doc("When the tries of the last round were given up.")]
        | None
    ) = None
    next_try_at: Annotated[datetime, Meta(tz=True), doc("When the next try is due.")] | None = None
    last_error: Annotated[str, doc("What the last try failed of.")] = ""
    asked: Annotated[
        bool, doc("Whether somebody had asked for the release when it failed, or it was idle.")
    ] = False
    released_at: (
        Annotated[datetime, Meta(tz=True), doc("When the instance was found gone.")] | None
    ) = None


class SnapshotRefs(Model, frozen=True):
    """Which stored versions of the tenant's files the instance has to do with, by digest."""

    base: Annotated[
        str, doc("The version that was current when the instance started: what it may replace.")
    ] = ""
    restored: Annotated[
        str,
        doc("The version that goes into the instance before it becomes Active; empty: none does."),
    ] = ""
    saved: Annotated[str, doc("The version that was saved at release.")] = ""


class ClaimStatus(Status, frozen=True):
    """Which instance the tenant has. The operator writes it, everyone reads it."""

    RULES: ClassVar = (
        # S0: written once, when the claim becomes Active.
        Rule(
            cel="!has(oldSelf.source) || has(self.source) && self.source == oldSelf.source",
            message="source is written once",
            holds=None,
            field="source",
        ),
    )

    phase: ClaimPhase = CLAIM.initial
    instance_id: Annotated[str, doc("Name of the instance, which is its Pod's.")] = ""
    endpoint: Endpoint | None = None
    source: (
        Annotated[
            Source,
            doc(
                "How the instance was come by: it ran already, was taken from a pool or started"
                " cold; +data if saved files were restored."
            ),
        ]
        | None
    ) = None
    claimed_at: Annotated[datetime, Meta(tz=True), doc("When the claim became Active.")] | None = (
        None
    )
    release: Release | None = None
    snapshot: SnapshotRefs | None = None


RESOURCE = CustomResource(
    kind="BoilerhouseClaim",
    short_name="bhc",
    doc="A claim gives a tenant an instance of a workload for as long as it exists.",
    spec=ClaimSpec,
    status=ClaimStatus,
    machine=CLAIM,
    columns=(
        Column("Tenant", ".spec.tenantId"),
        Column("Workload", ".spec.workloadRef"),
        Column("Phase", ".status.phase"),
        Column("Source", ".status.source"),
        Column("Instance", ".status.instanceId"),
        Column("Endpoint", ".status.endpoint.host"),
    ),
)
