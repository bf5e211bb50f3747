"""What an engine says: FireboltEngine as Structs, and the resource made of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta, field

from boilerhouse.core.crd import Column, CustomResource, Scale
from boilerhouse.core.model import Status
from boilerhouse.core.rules import Rule
from boilerhouse.core.schema import Int32, doc
from boilerhouse.engines.engines.machine import ENGINE, EnginePhase
from boilerhouse.engines.engines.names import LAST_GENERATION, MOST_REPLICAS
from boilerhouse.engines.fields import Name, Shared, Template
from boilerhouse.engines.names import GROUP, VERSION


def _stays(wire: str, what: str) -> Rule:
    return Rule(
        cel=f"!has(oldSelf.{wire}) || has(self.{wire}) && self.{wire} == oldSelf.{wire}",
        message=f"{what} cannot be changed once it is set",
        holds=None,
        field=wire,
    )


class EngineSpec(Shared, frozen=True, kw_only=True):
    """A server, how many Pods it has, and what they are made of."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *Shared.RULES,
        Rule(
            cel="has(self.instanceRef) || has(self.engineClassRef)",
            message="must be set, unless engineClassRef is: the class's profile may need none",
            holds=lambda spec: spec.instance_ref is not None or spec.engine_class_ref is not None,
            field="instanceRef",
        ),
        _stays("instanceRef", "the instance"),
        _stays("metadataEndpointOverride", "the override"),
    )

    instance_ref: (
        Annotated[Name, doc("Name of the FireboltInstance, in the same namespace.")] | None
    ) = None
    engine_class_ref: (
        Annotated[Name, doc("Name of the FireboltEngineClass, in the same namespace.")] | None
    ) = None
    replicas: Annotated[
        Int32, Meta(ge=0, le=MOST_REPLICAS), doc("How many Pods; 0 stops the engine.")
    ]
    template: Template = field(default_factory=dict)
    metadata_endpoint_override: (
        Annotated[
            str,
            Meta(min_length=1, max_length=1024),
            doc("Use this metadata service instead of the instance's own."),
        ]
        | None
    ) = None


Number = Annotated[Int32, Meta(ge=-1, le=LAST_GENERATION)]


class EngineStatus(Status, frozen=True):
    """How far the engine is. The operator writes it, everyone reads it."""

    phase: EnginePhase = ENGINE.initial
    current_generation: Annotated[
        Number, doc("The newest generation that is wanted: it is made, or it serves.")
    ] = 0
    active_generation: Annotated[
        Number, doc("The generation that serves; -1 before there is one.")
    ] = -1
    draining_generation: (
        Annotated[Number, doc("The generation that finishes its work, if there is one.")] | None
    ) = None
    latest_generation: Annotated[
        Number, doc("The highest number that a generation ever had; no number is used twice.")
    ] = 0
    current_render_hash: Annotated[str, doc("What the current generation is made of.")] = ""
    active_render_hash: Annotated[str, doc("What the active generation is made of.")] = ""
    aborted_render_hash: Annotated[
        str, doc("What the aborted generation was made of: it is not tried again.")
    ] = ""
    current_replicas: Annotated[Int32, doc("Pods of the current generation.")] = 0
    active_replicas: Annotated[Int32, doc("Pods of the active generation.")] = 0
    current_since: (
        Annotated[datetime, Meta(tz=True), doc("When the current generation was begun.")] | None
    ) = None
    draining_since: (
        Annotated[datetime, Meta(tz=True), doc("When the Service left the draining generation.")]
        | None
    ) = None
    rolled_because: Annotated[
        str, doc("Which of its inputs changed to make the current generation.")
    ] = ""
    replicas: Annotated[Int32, doc("Pods of the active generation that are there.")] = 0
    ready_replicas: Annotated[Int32, doc("Pods of the active generation that are ready.")] = 0
    selector: Annotated[
        str, doc("Label selector of the active generation's Pods, for the scale subresource.")
    ] = ""
    ignored_config: Annotated[
        tuple[Annotated[str, Meta(max_length=512)], ...],
        Meta(max_length=64),
        doc("Paths of customEngineConfig that were left out: the operator owns them."),
    ] = ()


RESOURCE = CustomResource(
    group=GROUP,
    version=VERSION,
    kind="FireboltEngine",
    short_name="fireng",
    doc="An engine is a server whose Pods are replaced as a whole: a new generation takes over from"
    " the old one when it is ready.",
    spec=EngineSpec,
    status=EngineStatus,
    machine=ENGINE,
    columns=(
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Phase", ".status.phase"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column("Generation", ".status.activeGeneration", "integer"),
    ),
    scale=Scale(spec=".spec.replicas", status=".status.replicas", selector=".status.selector"),
)
