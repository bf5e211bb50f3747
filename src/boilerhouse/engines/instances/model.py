"""What an instance says: FireboltInstance as Structs, and the resource made of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from boilerhouse.core.crd import Column, CustomResource
from boilerhouse.core.model import Model, Status
from boilerhouse.core.patterns import MEANING
from boilerhouse.core.rules import Rule
from boilerhouse.core.schema import Int32, doc
from boilerhouse.engines.fields import Name, NotSupported, Quantity, Template, refused
from boilerhouse.engines.instances.machine import INSTANCE, InstancePhase
from boilerhouse.engines.names import GROUP, VERSION

# Crockford's base 32 without I, L, O and U; the first digit holds three bits.
ULID = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}\Z"


class ScrapeMode(StrEnum):
    """The way on which a Pod's metrics are read."""

    POD_IP = "PodIP"
    APISERVER_PROXY = "ApiserverProxy"


class Postgres(Model, frozen=True):
    """A PostgreSQL server that the instance does not have to bring."""

    host: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            pattern=r"^[a-zA-Z0-9.:_-]+\Z",
            extra={MEANING: "a host name or an address"},
        ),
        doc("Its host."),
    ]
    database: Annotated[str, Meta(min_length=1, max_length=63), doc("Its database.")]
    credentials_secret_ref: Annotated[Name, doc("Secret with the keys username and password.")]
    port: Annotated[Int32, Meta(ge=1, le=65535), doc("Its port.")] = 5432
    schema: Annotated[str, Meta(min_length=1, max_length=63), doc("The schema to use.")] = "public"


class Metadata(Model, frozen=True):
    """The metadata service of the instance."""

    RULES: ClassVar = (
        Rule(
            cel="!has(self.replicas) || self.replicas == 1",
            message="the metadata service has exactly one replica",
            holds=lambda metadata: metadata.replicas == 1,
            field="replicas",
        ),
        Rule(
            cel="!has(oldSelf.storageSize) || has(self.storageSize) &&"
            " self.storageSize == oldSelf.storageSize",
            message="the size cannot be changed",
            holds=None,
            field="storageSize",
        ),
    )

    replicas: Annotated[Int32, doc("How many Pods: one.")] = 1
    template: Template = field(default_factory=dict)
    image: Annotated[str, Meta(max_length=1024), doc("Image of the service.")] = (
        "ghcr.io/firebolt-db/metadata:latest"
    )
    endpoint: (
        Annotated[
            str,
            Meta(min_length=1, max_length=1024),
            doc("A metadata service that is there already; then none is made."),
        ]
        | None
    ) = None
    postgres: Postgres | None = None
    storage_size: Annotated[Quantity, doc("Size of the volume that it keeps its data in.")] = "10Gi"


class Gateway(Model, frozen=True):
    """The gateway of the instance: accepted, and not made."""

    RULES: ClassVar = (refused("template", "template"),)

    replicas: Annotated[Int32, Meta(ge=0, le=100), doc("Has no effect.")] = 2
    metrics_port: Annotated[Int32, Meta(ge=1, le=65535), doc("Has no effect.")] = 9090
    template: NotSupported | None = None


class InstanceSpec(Model, frozen=True, kw_only=True):
    """What the engines of one installation share."""

    RULES: ClassVar = (
        Rule(
            cel="!has(oldSelf.id) || has(self.id) && self.id == oldSelf.id",
            message="the id cannot be changed once it is set",
            holds=None,
            field="id",
        ),
        refused("auth", "auth"),
        refused("tls", "tls"),
    )

    id: (
        Annotated[
            str,
            Meta(pattern=ULID, extra={MEANING: "a ULID: 26 digits and capital letters"}),
            doc("Identity of the instance; made once if it is absent."),
        ]
        | None
    ) = None
    metadata: Annotated[Metadata, doc("The metadata service.")]
    gateway: Annotated[Gateway, doc("Accepted for compatibility: no gateway is made.")]
    auth: NotSupported | None = None
    tls: NotSupported | None = None
    metric_scrape_mode: Annotated[ScrapeMode, doc("How the metrics of engines are read.")] = (
        ScrapeMode.POD_IP
    )


class InstanceStatus(Status, frozen=True):
    """How far the instance is. The operator writes it, everyone reads it."""

    phase: InstancePhase = INSTANCE.initial
    metadata_ready: Annotated[bool, doc("Whether the metadata service answers.")] = False
    metadata_endpoint: Annotated[
        str, doc("Where engines find the metadata service; empty while it does not answer.")
    ] = ""
    bound_engines: Annotated[Int32, Meta(ge=0), doc("Engines that name the instance.")] = 0


RESOURCE = CustomResource(
    group=GROUP,
    version=VERSION,
    kind="FireboltInstance",
    short_name="fire",
    doc="An instance is what the engines of one installation share: an identity and a metadata"
    " service.",
    spec=InstanceSpec,
    status=InstanceStatus,
    machine=INSTANCE,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Metadata", ".status.metadataReady", "boolean"),
        Column("Engines", ".status.boundEngines", "integer"),
    ),
)
