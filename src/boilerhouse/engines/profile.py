"""Profiles: what is particular to one kind of server. Everything else is the same for all.

Firebolt's values are the defaults, so a class without a profile is Firebolt's; a class with one
makes an engine of another server (vLLM, Trino, a cache), as long as what must not be lost lives
elsewhere: a new generation begins with empty disks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from boilerhouse.core.model import Model
from boilerhouse.core.patterns import DNS_LABEL, NO_NUL
from boilerhouse.core.rules import Rule
from boilerhouse.core.schema import UNIQUE, FreeForm, Int32, Int64, doc, keyed_by

Label = Annotated[str, Meta(min_length=1, max_length=63, pattern=DNS_LABEL)]
PortNumber = Annotated[Int32, Meta(ge=1, le=65535)]
Path = Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^/[!-~]*\Z")]
Argument = Annotated[str, Meta(max_length=32_768, pattern=NO_NUL)]
Seconds = Annotated[Int32, Meta(ge=0, le=86_400)]
Metric = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*\Z")]
DottedPath = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^. ]+(\.[^. ]+)*\Z")]


class CommandPolicy(StrEnum):
    """Who says what the container runs."""

    OWNED = "owned"
    USER = "user"


class Role(StrEnum):
    """What a port is for."""

    QUERY = "query"
    HEALTH = "health"
    METRICS = "metrics"


class ConfigFormat(StrEnum):
    """How a server reads its configuration."""

    YAML = "yaml"
    NONE = "none"


class DrainType(StrEnum):
    """How to ask a Pod what it still works on."""

    PROMETHEUS = "prometheus"
    HTTP_JSON = "http-json"
    NONE = "none"


class Dependency(StrEnum):
    """Whether an engine needs a FireboltInstance."""

    REQUIRED = "required"
    NONE = "none"


class Data(StrEnum):
    """What the server's disks are worth."""

    EXTERNAL = "external"
    CACHE = "cache"
    DURABLE = "durable"


class Port(Model, frozen=True):
    """A port of the server."""

    name: Annotated[str, Meta(min_length=1, max_length=15, pattern=DNS_LABEL), doc("Its name.")]
    port: Annotated[PortNumber, doc("Its number.")]
    role: Annotated[Role, doc("What it is for.")]


class Probe(Model, frozen=True):
    """A request that a healthy server answers with success; without a path, a connection."""

    port: Annotated[PortNumber, doc("Port that is asked.")]
    path: Annotated[Path, doc("Path of an HTTP GET; absent means that a connection suffices.")] | (
        None
    ) = None
    initial_delay_seconds: Annotated[Seconds, doc("Wait so long before the first.")] = 0
    period_seconds: Annotated[Seconds, doc("How often.")] = 10
    timeout_seconds: Annotated[Seconds, doc("How long an answer may take.")] = 3
    failure_threshold: Annotated[Int32, Meta(ge=1, le=1000), doc("So many failures count.")] = 3


class Probes(Model, frozen=True):
    """How kubelet knows that a server is ready, alive and started."""

    ready: Probe | None = None
    live: Probe | None = None
    startup: Probe | None = None


# Values in `base` that are replaced by what they name.
INSTANCE_ID = "$(instance.id)"
INSTANCE_ENDPOINT = "$(instance.endpoint)"
ENGINE_ID = "$(engine.id)"
ENGINE_NODES = "$(engine.nodes)"
GRACE = "$(grace)"


class ConfigFile(Model, frozen=True):
    """The configuration file that the operator writes."""

    format: Annotated[ConfigFormat, doc("yaml, or none for no file at all.")] = ConfigFormat.YAML
    mount_path: Annotated[Path, doc("Where the file is in the container.")] = (
        "/firebolt-core/config.yaml"
    )
    file_name: Annotated[
        str,
        Meta(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+\Z"),
        doc("Its key in the ConfigMap."),
    ] = "config.yaml"
    base: Annotated[
        FreeForm,
        doc(
            "What the operator puts into it. Texts that are replaced: "
            + ", ".join((INSTANCE_ID, INSTANCE_ENDPOINT, ENGINE_ID, ENGINE_NODES, GRACE))
            + "."
        ),
    ] = field(default_factory=dict)
    owned_paths: Annotated[
        tuple[DottedPath, ...],
        Meta(max_length=64),
        UNIQUE,
        doc("Paths that customEngineConfig cannot set."),
    ] = ()


class Drain(Model, frozen=True):
    """How to find out that a Pod has finished its work: the sum of some numbers is 0."""

    RULES: ClassVar = (
        Rule(
            cel="self.type == 'none' || has(self.sum) && self.sum.size() > 0",
            message="what to sum up must be named unless type is none",
            holds=lambda drain: drain.type == DrainType.NONE or bool(drain.sum),
            field="sum",
        ),
    )

    type: Annotated[DrainType, doc("What the answer looks like.")] = DrainType.PROMETHEUS
    port: Annotated[PortNumber, doc("Port that is asked.")] = 9090
    path: Annotated[Path, doc("Path that is asked.")] = "/metrics"
    sum: Annotated[
        tuple[Metric, ...], Meta(max_length=16), UNIQUE, doc("Metrics or fields to sum up.")
    ] = ()
    labelled: Annotated[
        bool, doc("Whether samples with labels count too; else they are no answer.")
    ] = False
    timeout_seconds: Annotated[Int32, Meta(ge=1, le=60), doc("How long an answer may take.")] = 10


class EnvVar(Model, frozen=True):
    """An environment variable that the operator sets."""

    name: Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*\Z")]
    value: Annotated[str, Meta(max_length=32_768, pattern=NO_NUL)] = ""
    pod_label: Annotated[
        str, Meta(max_length=317), doc("Take the value from this label of the Pod.")
    ] = ""


class Profile(Model, frozen=True):
    """What is particular to one kind of server. Absent fields are Firebolt's."""

    RULES: ClassVar = (
        Rule(
            cel="!has(self.data) || self.data != 'durable'",
            message="a new generation starts with empty disks: durable data would be lost",
            holds=lambda profile: profile.data != Data.DURABLE,
            field="data",
        ),
    )

    container: Annotated[Label, doc("Name of the server's container.")] = "engine"
    image: Annotated[
        str, Meta(max_length=1024), doc("Image of a server whose template names none.")
    ] = "ghcr.io/firebolt-db/engine:latest"
    command_policy: Annotated[
        CommandPolicy, doc("owned: the command is this profile's; user: it is the template's.")
    ] = CommandPolicy.OWNED
    command: Annotated[tuple[Argument, ...], Meta(max_length=64), doc("What it runs.")] = (
        "/firebolt-core/firebolt",
        "server",
        "--node",
        "$(POD_INDEX)",
        "--data-dir",
        "/firebolt-core",
    )
    ports: Annotated[
        tuple[Port, ...], Meta(min_length=1, max_length=16), keyed_by("name"), doc("Its ports.")
    ] = (
        Port("http-query", 3473, Role.QUERY),
        Port("health", 8122, Role.HEALTH),
        Port("metrics", 9090, Role.METRICS),
    )
    probes: Annotated[Probes, doc("How to know that it is ready, alive and started.")] = Probes(
        ready=Probe(8122, "/health/ready", 1, 3, 3, 6),
        live=Probe(8122, "/health/live", 2, 5, 3, 6),
        startup=Probe(8122, "/health/live", 0, 5, 3, 30),
    )
    config: Annotated[ConfigFile, doc("Its configuration file.")] = ConfigFile(
        base={
            "schema_version": "1.0",
            "instance": {
                "id": INSTANCE_ID,
                "type": "multi_engine",
                "multi_engine": {"metadata_endpoint": INSTANCE_ENDPOINT},
            },
            "engine": {
                "id": ENGINE_ID,
                "nodes": ENGINE_NODES,
                "termination_grace_period": GRACE,
            },
            "logging": {"format": "json"},
        },
        owned_paths=(
            "schema_version",
            "endpoints",
            "instance.id",
            "instance.type",
            "instance.multi_engine",
            "instance.auth",
            "engine.id",
            "engine.nodes",
            "engine.termination_grace_period",
        ),
    )
    drain: Annotated[Drain, doc("How to know that it has finished its work.")] = Drain(
        sum=("firebolt_running_queries", "firebolt_suspended_queries")
    )
    termination_grace_period_seconds: Annotated[
        Int32, Meta(ge=6, le=86_400), doc("How long a Pod may take to stop.")
    ] = 60
    user: Annotated[Int64, Meta(ge=1, le=2**31 - 1), doc("User and group it runs as.")] = 3473
    env: Annotated[
        tuple[EnvVar, ...],
        Meta(max_length=64),
        keyed_by("name"),
        doc("Environment variables that templates cannot set."),
    ] = (
        EnvVar("POD_INDEX", pod_label="apps.kubernetes.io/pod-index"),
        EnvVar("FB_AWS_EC2_METADATA_CLIENT_ENABLED", "true"),
    )
    data_path: Annotated[Path, doc("Where its working data is in the container.")] = (
        "/firebolt-core/volume"
    )
    runtime_path: Annotated[Path, doc("Where it may write sockets and other passing files.")] = (
        "/firebolt-core/run"
    )
    instance: Annotated[Dependency, doc("Whether it needs a FireboltInstance.")] = (
        Dependency.REQUIRED
    )
    data: Annotated[
        Data,
        doc(
            "What its disks are worth: external (nothing), cache (time); durable is refused, since"
            " a new generation starts with empty disks."
        ),
    ] = Data.CACHE

    @property
    def told_grace(self) -> int:
        """Seconds that the server is told it has: a margin is left for the Pod's own end."""
        return self.termination_grace_period_seconds - 5


FIREBOLT = Profile()
