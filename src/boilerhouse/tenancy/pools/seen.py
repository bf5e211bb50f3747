"""What is seen of a pool, and what can be planned for it: the words of read, decide and apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from boilerhouse.core.names import FINALIZER
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.core.stepfailure import StepFailure
from boilerhouse.tenancy.instances.seen import Blueprint, InstanceSeen
from boilerhouse.tenancy.pools.model import PoolStatus


class PoolSeen(Struct, frozen=True):
    """A Pool at one moment."""

    name: str
    uid: str
    version: str
    generation: int
    workload: str
    size: int
    max_fill: int
    status: PoolStatus
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def held(self) -> bool:
        return FINALIZER in self.finalizers


class Seen(Struct, frozen=True):
    """Everything that a decision about one pool may look at."""

    now: datetime
    pool: PoolSeen | None  # None: gone, the server said so
    workload: Blueprint | None = None  # None: gone, the server said so
    pods: tuple[InstanceSeen, ...] = ()  # carry the pool's label and no claim
    random_bits: int = 0  # makes the names of new Pods
    refusal: StepFailure | None = None  # the API server will not have new Pods
    failing: StepFailure | None = None  # Pods are made, and die or never get ready


@dataclass(frozen=True, slots=True)
class CreatePod:
    name: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a warm Pod, if it is still as it was seen, so never one that was just bound.

    One that `failed` counts against the pool: the next Pod is made later.
    """

    pod: InstanceSeen
    why: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class LabelPod:
    """Show on a Pod whether it is warming or ready."""

    pod: InstanceSeen
    status: str


Step = CreatePod | DeletePod | LabelPod | AddFinalizer | RemoveFinalizer


Plan = Do[Step] | WriteStatus[PoolStatus] | Wait
