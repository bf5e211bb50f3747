"""Fields that engines and classes both have; an engine's own value goes before its class's.

None of them has a default in the schema: a default would hide what the class says.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta

from boilerhouse.core.model import Model
from boilerhouse.core.patterns import DNS_SUBDOMAIN, MEANING
from boilerhouse.core.rules import Rule
from boilerhouse.core.schema import UNIQUE, FreeForm, doc
from boilerhouse.engines.durations import Duration


class Rollout(StrEnum):
    """Whether the old generation may finish its work before it goes."""

    GRACEFUL = "graceful"
    RECREATE = "recreate"


class DrainAction(StrEnum):
    """What to do about an old generation that is still busy when its time is up."""

    WAIT = "wait"
    PROCEED = "proceed"


class DeadlineAction(StrEnum):
    """What to do about a new generation that is not ready when its time is up."""

    WAIT = "wait"
    ABORT = "abort"


class Medium(StrEnum):
    """What an emptyDir is made of: the node's disk unless it is memory."""

    MEMORY = "Memory"


# The part of a quantity's grammar that sizes are written in.
Quantity = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=32,
        pattern=r"^[0-9]{1,18}(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?\Z",
        extra={MEANING: "a quantity such as 10Gi"},
    ),
]

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
        extra={MEANING: "the name of an object"},
    ),
]


class AccessMode(StrEnum):
    """From where a volume can be mounted."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


class PersistentVolumeClaim(Model, frozen=True):
    """A volume of its own for each Pod. It goes with the Pod's generation."""

    size: Annotated[Quantity, doc("How large.")] = "1Gi"
    access_modes: Annotated[
        tuple[AccessMode, ...], Meta(max_length=3), UNIQUE, doc("From where it can be mounted.")
    ] = (AccessMode.READ_WRITE_ONCE,)
    storage_class_name: (
        Annotated[Name, doc("The class of storage; absent means the cluster's default.")] | None
    ) = None


class EmptyDir(Model, frozen=True):
    """A directory that lives as long as its Pod."""

    medium: Annotated[Medium, doc("Memory, or absent for the node's disk.")] | None = None
    size_limit: Annotated[Quantity, doc("How large it may become.")] | None = None


class HostPath(Model, frozen=True):
    """A directory of the node."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1024,
            pattern=r"^/[^\x00:]*\Z",
            extra={MEANING: "an absolute path"},
        ),
        doc("Where it is on the node."),
    ]
    type: Annotated[str, Meta(max_length=32), doc("What must be there, as in a Pod.")] | None = None


class Storage(Model, frozen=True):
    """Where a Pod keeps its working data. A new generation always starts with empty storage."""

    RULES: ClassVar = (
        Rule(
            cel="[has(self.persistentVolumeClaim), has(self.emptyDir), has(self.hostPath)]"
            ".filter(there, there).size() <= 1",
            message="at most one of persistentVolumeClaim, emptyDir and hostPath may be set",
            holds=lambda storage: (
                sum(
                    one is not None
                    for one in (
                        storage.persistent_volume_claim,
                        storage.empty_dir,
                        storage.host_path,
                    )
                )
                <= 1
            ),
        ),
    )

    persistent_volume_claim: PersistentVolumeClaim | None = None
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None


def refused(field: str, attribute: str) -> Rule:
    """The schema knows this wire field, and this release does not do what it asks for."""
    return Rule(
        cel=f"!has(self.{field})",
        message="not supported",
        holds=lambda value: getattr(value, attribute) is None,
        field=field,
    )


Template = Annotated[
    FreeForm,
    doc("Fragment of a Pod template, laid over the operator's; docs/engines.md lists its fields."),
]
CustomConfig = Annotated[
    FreeForm, doc("Merged into the server's configuration; what the operator owns is left out.")
]
NotSupported = Annotated[FreeForm, doc("Not supported: refused if it is set.")]


class Shared(Model, frozen=True):
    """What an engine may leave to its class."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        refused("uiSidecar", "ui_sidecar"),
        refused("autoStop", "auto_stop"),
    )

    rollout: (
        Annotated[
            Rollout,
            doc(
                "graceful (the default) waits until the old generation has finished its work;"
                " recreate does not."
            ),
        ]
        | None
    ) = None
    drain_check_enabled: (
        Annotated[bool, doc("Whether to wait for the old generation's work; true if absent.")]
        | None
    ) = None
    drain_check_interval: (
        Annotated[Duration, doc("How often to ask whether it has finished; 5s if absent.")] | None
    ) = None
    drain_timeout: (
        Annotated[Duration, doc("How long an old generation may take; absent means for ever.")]
        | None
    ) = None
    drain_timeout_action: (
        Annotated[
            DrainAction,
            doc("After drainTimeout: wait (the default) and say so, or proceed without waiting."),
        ]
        | None
    ) = None
    progress_deadline: (
        Annotated[
            Duration,
            doc("How long a new generation may take to become ready; absent means for ever."),
        ]
        | None
    ) = None
    progress_deadline_action: (
        Annotated[
            DeadlineAction,
            doc(
                "After progressDeadline: wait (the default) and say so, or abort: stay with the"
                " generation that serves."
            ),
        ]
        | None
    ) = None
    storage: Annotated[Storage, doc("Where a Pod keeps its working data.")] | None = None
    custom_engine_config: CustomConfig | None = None
    ui_sidecar: Annotated[bool, doc("Not supported: refused if it is set.")] | None = None
    auto_stop: NotSupported | None = None
