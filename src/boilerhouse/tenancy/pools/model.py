"""What a Pool says: BoilerhousePool as Structs, and the resource made of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from boilerhouse.core.crd import Column, CustomResource, Scale
from boilerhouse.core.model import Model, Status, WorkloadRef
from boilerhouse.core.schema import Int32, doc
from boilerhouse.tenancy.pools.machine import POOL, PoolPhase


class PoolSpec(Model, frozen=True):
    """How many warm instances to keep, and of what."""

    workload_ref: WorkloadRef
    size: Annotated[
        Int32, Meta(ge=0, le=10_000), doc("How many warm instances to keep ready for claims.")
    ]
    max_fill_concurrency: Annotated[
        Int32, Meta(ge=1, le=1_000), doc("How many instances may be starting at the same time.")
    ] = 2


class PoolStatus(Status, frozen=True):
    """How full the pool is. The operator writes it, everyone reads it."""

    phase: PoolPhase = POOL.initial
    ready: Annotated[Int32, Meta(ge=0), doc("Warm instances that a claim can have at once.")] = 0
    warming: Annotated[Int32, Meta(ge=0), doc("Instances that are still starting.")] = 0
    selector: Annotated[
        str, doc("Label selector of the pool's Pods, for the scale subresource.")
    ] = ""


RESOURCE = CustomResource(
    kind="BoilerhousePool",
    short_name="bhp",
    doc="A pool keeps warm instances of a workload, so that a claim gets one in milliseconds.",
    spec=PoolSpec,
    status=PoolStatus,
    machine=POOL,
    columns=(
        Column("Workload", ".spec.workloadRef"),
        Column("Size", ".spec.size", "integer"),
        Column("Ready", ".status.ready", "integer"),
        Column("Phase", ".status.phase"),
    ),
    scale=Scale(spec=".spec.size", status=".status.ready", selector=".status.selector"),
)
