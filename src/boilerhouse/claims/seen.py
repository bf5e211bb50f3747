"""What is seen of a claim, and what can be planned for it: the words of read, decide and apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from boilerhouse.claims.intent import Intent
from boilerhouse.claims.model import ClaimStatus
from boilerhouse.core.names import FINALIZER, claim_name
from boilerhouse.core.setback import Setback
from boilerhouse.instances.seen import Blueprint, ClaimRef, InstanceSeen


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """A Claim at one moment."""

    name: str
    uid: str
    version: str
    generation: int
    tenant: str
    workload: str
    status: ClaimStatus
    intent: Intent | None = None
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    release: bool = False  # the user asked for its release over REST

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(self.name, self.uid)

    @property
    def canonical(self) -> bool:
        """Whether its name alone locks (tenant, workload); else it must take the Lease."""
        return self.name == claim_name(self.tenant, self.workload)

    @property
    def leaving(self) -> bool:
        return self.deleting or self.release

    @property
    def held(self) -> bool:
        return FINALIZER in self.finalizers


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a decision about one claim may look at."""

    now: datetime
    claim: ClaimSeen | None  # None: gone, the server said so
    workload: Blueprint | None = None  # None: gone, the server said so
    pod: InstanceSeen | None = None  # of the intent's name; None: gone, the server said so
    pod_on_healthy_node: bool = True
    spare: Intent | None = None  # a warm Pod that nobody else in this process will choose
    strays: tuple[InstanceSeen, ...] = ()  # carry the claim's reference, and are not its Pod
    sole: bool = False  # nobody else claims for this tenant and workload, and nobody can begin to
    delivered: bool = False  # the identity is in the instance
    setback: Setback | None = None


# Steps: idempotent, and safe to be carried out by several processes at once.


@dataclass(frozen=True, slots=True)
class BindPod:
    """Put the claim's reference on a warm Pod and take it out of its pool."""

    pod: InstanceSeen


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make the cold Pod that the intent names."""

    name: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a Pod that nobody may use any more, if it is still as it was seen."""

    pod: InstanceSeen
    why: str


@dataclass(frozen=True, slots=True)
class LookForRival:
    """Make sure that no other Claim object is for the same tenant and workload (rivals.py)."""


@dataclass(frozen=True, slots=True)
class DeliverIdentity:
    """Tell the instance whose it is."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the Claim go: nothing is left to clean up."""


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete a Claim whose release was asked for over REST."""


Step = (
    BindPod | CreatePod | DeletePod | LookForRival | DeliverIdentity | RemoveFinalizer | DeleteClaim
)

# Plans: steps, or one write, or patience.


@dataclass(frozen=True, slots=True)
class Do:
    """Carry out steps, beside each other."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status, if the Claim is still as it was seen; then tell why as an Event."""

    status: ClaimStatus
    reason: str


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """Choose a Pod, or none, if the Claim is still as it was seen."""

    intent: Intent | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until something happens, or until it is time to look again."""

    why: str
    again_in: timedelta | None = None


Plan = Do | WriteStatus | WriteIntent | Wait
