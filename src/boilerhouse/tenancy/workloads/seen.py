"""What is seen of a workload, and what can be planned for it: words of read, decide and apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from boilerhouse.core.names import FINALIZER
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.tenancy.workloads.model import WorkloadStatus


@dataclass(frozen=True, slots=True)
class WorkloadSeen:
    """A Workload at one moment."""

    name: str
    uid: str
    version: str
    generation: int
    status: WorkloadStatus
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def held(self) -> bool:
        return FINALIZER in self.finalizers


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a decision about one workload may look at."""

    now: datetime
    workload: WorkloadSeen
    faults: tuple[str, ...] = ()  # of the spec itself: only a change of it can help
    missing: tuple[str, ...] = ()  # outside of it: an image, a Secret
    claims: tuple[str, ...] = ()  # that keep it; asked live when it is being deleted
    unenforced: str = ""  # why limits of memory and CPU are not enforced where instances run


Step = AddFinalizer | RemoveFinalizer


Plan = Do[Step] | WriteStatus[WorkloadStatus] | Wait
