"""What is seen of an instance, and what can be planned for it: words of read, decide and apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.children import NOTHING, Child
from boilerhouse.engines.instances.model import InstanceSpec, InstanceStatus
from boilerhouse.engines.names import INSTANCE_FINALIZER


class InstanceSeen(Struct, frozen=True):
    """A FireboltInstance at one moment."""

    name: str
    namespace: str
    uid: str
    version: str
    generation: int
    spec: InstanceSpec
    status: InstanceStatus
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    delete_data: bool = False  # the user wants its volume deleted with it

    @property
    def held(self) -> bool:
        return INSTANCE_FINALIZER in self.finalizers


class Seen(Struct, frozen=True):
    """Everything that a decision about one instance may look at."""

    now: datetime
    instance: InstanceSeen
    faults: tuple[str, ...] = ()  # of the spec itself: only a change of it can help
    missing: tuple[str, ...] = ()  # outside of it: a Secret
    engines: tuple[str, ...] = ()  # that name it; asked live when it is being deleted
    statefulset: Child = NOTHING  # of the metadata service
    service: Child = NOTHING
    ready: bool = False  # the metadata service's Pod
    volume: Child = NOTHING  # its data; it has no owner, so it is found by its name
    chance: int = 0  # makes the id


@dataclass(frozen=True, slots=True)
class MintId:
    """Write the id into the spec, if the instance is still as it was seen: so once."""

    id: str


@dataclass(frozen=True, slots=True)
class EnsureService:
    """Make or repair the metadata service's Service."""


@dataclass(frozen=True, slots=True)
class EnsureStatefulSet:
    """Make the metadata service's StatefulSet, or change it in place."""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the StatefulSet or the Service, if it is still as it was seen."""

    kind: str
    child: Child


@dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Delete the metadata service's volume: the user asked for that."""

    child: Child


Step = (
    MintId
    | EnsureService
    | EnsureStatefulSet
    | DeleteObject
    | DeleteVolume
    | AddFinalizer
    | RemoveFinalizer
)

Plan = Do[Step] | WriteStatus[InstanceStatus] | Wait
