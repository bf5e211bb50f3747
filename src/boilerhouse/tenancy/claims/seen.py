"""What is seen of a claim, and what can be planned for it: the words of read, decide and apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from boilerhouse.core.names import FINALIZER, claim_name
from boilerhouse.core.plan import Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.core.stepfailure import StepFailure
from boilerhouse.tenancy.claims.deciding.epochs import release_of
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus
from boilerhouse.tenancy.idle.verdict import ChangesSeen
from boilerhouse.tenancy.instances.seen import Blueprint, ClaimRef, InstanceSeen

Mode = Literal["cold", "restart", "live"]  # how files come into an instance
QUEUED = "queued"  # among `Seen.busy`: what is under way waits for its turn


class ClaimSeen(Struct, frozen=True):
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
    resume: bool = True  # whether stored files are to be restored
    last_activity: datetime | None = None
    again: int = 0  # the round of a re-attachment that the tenant wished for (epochs.py)
    retry: int = 0  # the round after whose failure somebody wanted another try
    force: bool = False  # what cannot be saved may be lost
    restore_previous: bool = False  # if the current version is bad, the one before it will do

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
    def stuck(self) -> bool:
        """Whether its release failed, and nobody has asked for another try since."""
        if self.status.phase != ClaimPhase.RELEASE_FAILED:
            return False
        return not self.force and self.retry != release_of(self.status).epoch

    @property
    def held(self) -> bool:
        return FINALIZER in self.finalizers

    def owns(self, pod: InstanceSeen) -> bool:
        """Whether a Pod is the one that this claim names, and carries it."""
        return (
            self.intent is not None
            and pod.claim is not None
            and pod.claim.uid == self.uid
            and pod.name == self.intent.pod
            and self.intent.uid in ("", pod.uid)
        )


class SavedSeen(Struct, frozen=True):
    """What this process saved of the instance, in this life of it and in this round.

    `side_version`: the version is kept, and another one is current, which this one may not replace.
    `skipped` names some of what no archive can keep.
    """

    digest: str
    side_version: bool = False
    skipped: tuple[str, ...] = ()


class UsageSeen(Struct, frozen=True):
    """Disk use of the instance, as its agent last told. Next look in `due_in`.

    `full`: what of its disk is used up (limit.py), empty if nothing is; None: its agent
    was not asked yet. `over`: it is above its limit and not frozen yet, which is for a moment only.
    `unlinked`: much of its disk is taken by files that are open and have no name any more.
    """

    due_in: timedelta
    full: str | None = None
    over: bool = False
    unlinked: bool = False


class Seen(Struct, frozen=True):
    """Everything that a decision about one claim may look at."""

    now: datetime
    claim: ClaimSeen | None  # None: gone, the server said so
    workload: Blueprint | None = None  # None: gone, the server said so
    pod: InstanceSeen | None = None  # of the intent's name; None: gone, the server said so
    strays: tuple[InstanceSeen, ...] = ()  # carry the claim's reference, and are not its Pod
    failure: StepFailure | None = None
    busy: frozenset[str] = frozenset()  # names of steps that are under way in this process
    # Results of steps, each for this very claim, instance and round; None: not known here.
    delivered: bool = False  # the identity is in the instance
    stored: str | None = None  # digest of the current version of the tenant's files; "": none
    hooked: bool = False  # the hook of this turn has run
    # Of a claim that has no instance yet, and of no other:
    pod_on_healthy_node: bool = True
    spare: Intent | None = None  # a warm Pod that nobody else in this process will choose
    sole: bool = False  # nobody else claims for this tenant and workload, and nobody can begin to
    unanswered: bool = False  # `stored` was asked for in vain, and is not needed yet
    corrupt: str = ""  # digest of a version whose stored bytes are bad
    previous: str | None = None  # digest of the newest good version before that one; "": none
    skipped: tuple[str, ...] = ()  # entries of a restored version that have no place any more
    # Of an Active one:
    cordoned: str = ""  # name of the node, if it is this instance's turn to leave it (cordons.py)
    changes: ChangesSeen | None = None
    usage: UsageSeen | None = None
    # Of one on its way out:
    saved: SavedSeen | None = None
    thawed: bool = False


# Steps: idempotent, and safe to be carried out by several processes at once.


@dataclass(frozen=True, slots=True)
class BindPod:
    """Put the claim's reference on a warm Pod and take it out of its pool."""

    pod: InstanceSeen


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make the cold Pod that the intent names; `restore`: the version it is to wait for."""

    name: str
    restore: str = ""


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
class LookUpSnapshot:
    """Find out which version of the tenant's files is current; without `must`, if that is easy."""

    must: bool = True


@dataclass(frozen=True, slots=True)
class LookUpPrevious:
    """Find out which good version came before one that is bad."""

    digest: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Put a stored version into the instance, and note on its Pod that it is there."""

    pod: InstanceSeen
    digest: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run a command of the workload's in the instance. `must`: its failure counts."""

    pod: InstanceSeen
    name: str
    command: tuple[str, ...]
    timeout: timedelta
    must: bool
    turn: str  # what it belongs to, so that it runs once there: a version, or a round


@dataclass(frozen=True, slots=True)
class Save:
    """Freeze the instance and store its files, for good; it stays frozen."""

    pod: InstanceSeen
    base: str
    epoch: int
    keep: int
    clean: bool = False  # it started without the files of `base`


@dataclass(frozen=True, slots=True)
class Thaw:
    """Let a frozen instance run on, and make void what was saved in older rounds."""

    pod: InstanceSeen
    epoch: int


@dataclass(frozen=True, slots=True)
class AskChanges:
    """Ask for the newest change under watched directories."""

    pod: InstanceSeen
    directories: tuple[str, ...]
    since: int  # nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class LookAtUsage:
    """Ask for the instance's disk use, and tell it how much it may be by now."""

    pod: InstanceSeen
    disk_gb: int


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete a Claim whose release was asked for over REST, or that was Released long ago."""


Step = (
    BindPod
    | CreatePod
    | DeletePod
    | LookForRival
    | DeliverIdentity
    | LookUpSnapshot
    | LookUpPrevious
    | Restore
    | RunHook
    | Save
    | Thaw
    | AskChanges
    | LookAtUsage
    | RemoveFinalizer
    | DeleteClaim
)

# Plans: steps, or one write, or patience.


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """Choose a Pod, or none, if the Claim is still as it was seen."""

    intent: Intent | None


@dataclass(frozen=True, slots=True)
class NoteActivity:
    """Write down that the tenant is active now, if the Claim is still as it was seen."""


Plan = Do[Step] | WriteStatus[ClaimStatus] | WriteIntent | NoteActivity | Wait
