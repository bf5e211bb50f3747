"""What is seen of an engine, and what can be planned for it: words of read, decide and apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import Struct

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.children import NOTHING, Child, State
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.fields import DeadlineAction, DrainAction
from boilerhouse.engines.names import ENGINE_FINALIZER


class Policy(Struct, frozen=True):
    """How generations follow each other: read anew in every pass, never a reason for a new one."""

    drain: bool = True
    drain_interval: timedelta = timedelta(seconds=5)
    drain_timeout: timedelta | None = None
    drain_action: DrainAction = DrainAction.WAIT
    deadline: timedelta | None = None
    deadline_action: DeadlineAction = DeadlineAction.WAIT


class EngineSeen(Struct, frozen=True):
    """A FireboltEngine at one moment."""

    name: str
    namespace: str
    uid: str
    version: str
    generation: int
    replicas: int
    status: EngineStatus
    policy: Policy = Policy()
    abort: int | None = None  # number of the generation that the user does not want any more
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def held(self) -> bool:
        return ENGINE_FINALIZER in self.finalizers


class GenerationSeen(Struct, frozen=True):
    """The objects of one generation, and how many Pods there are of it."""

    number: int
    statefulset: Child = NOTHING
    headless: Child = NOTHING
    config: Child = NOTHING
    budget: Child = NOTHING
    pods: int = 0
    ready: int = 0

    @property
    def children(self) -> tuple[Child, ...]:
        return (self.statefulset, self.headless, self.config, self.budget)

    @property
    def removable(self) -> bool:
        """Whether something of it is there that was not deleted yet."""
        return any(child.removable for child in self.children)

    def is_ready(self, replicas: int) -> bool:
        """Whether all its Pods are there and ready; none are, where none are wanted."""
        return (
            self.statefulset.state == State.SOUND
            and self.pods == replicas
            and self.ready == replicas
        )


class ServiceSeen(Struct, frozen=True):
    """The Service that clients use."""

    child: Child = NOTHING
    selects: int | None = None  # a generation; None: no Service, or none of our numbers


class Wanted(Struct, frozen=True):
    """What the spec, the class and the instance ask for now."""

    hash: str
    inputs: tuple[tuple[str, str], ...] = ()  # each input's name and hash
    ignored: tuple[str, ...] = ()  # paths of customEngineConfig that the operator owns


class DrainSeen(Struct, frozen=True):
    """What the Pods of the draining generation said about their work."""

    busy: int = 0  # the sum over all Pods that answered
    failing: tuple[str, ...] = ()  # one sentence per Pod that could not be asked


class Warned(Struct, frozen=True):
    """A Warning event of a StatefulSet."""

    reason: str
    message: str
    count: int = 1


class Gate(Struct, frozen=True):
    """Why nothing can be rendered now."""

    reason: str
    message: str


class Seen(Struct, frozen=True):
    """Everything that a decision about one engine may look at."""

    now: datetime
    engine: EngineSeen
    instance_fault: str | None = None  # None: the instance is ready, or not needed
    instance_needed: bool = True
    faults: tuple[Gate, ...] = ()  # of class, name, template and bounds, in published order
    wanted: Wanted | None = None  # None: it cannot be rendered, a gate says why
    known_profile: bool = True  # whether a Service could be made from scratch
    stamped: tuple[tuple[str, str], ...] = ()  # inputs of the current generation, as stamped
    generations: tuple[GenerationSeen, ...] = ()
    service: ServiceSeen = ServiceSeen()
    drain: DrainSeen | None = None  # None: nothing was asked
    warned: Warned | None = None  # of the current generation's StatefulSet

    def generation(self, number: int) -> GenerationSeen:
        """Return what is there of a generation, maybe nothing."""
        for one in self.generations:
            if one.number == number:
                return one
        return GenerationSeen(number)


@dataclass(frozen=True, slots=True)
class EnsureConfigMap:
    """Make or repair the ConfigMap of a generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class EnsureHeadless:
    """Make or repair the headless Service of a generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class EnsureBudget:
    """Make or repair the PodDisruptionBudget of a generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class EnsureStatefulSet:
    """Make the StatefulSet of a generation, if there is none: one that is there never changes."""

    generation: int


@dataclass(frozen=True, slots=True)
class EnsureService:
    """Make the Service that clients use select a generation, if it is still as it was seen."""

    generation: int


@dataclass(frozen=True, slots=True)
class DeleteGeneration:
    """Delete what is there of a generation, each object if it is still as it was seen."""

    generation: GenerationSeen
    why: str


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Delete the Service that clients use."""

    service: ServiceSeen


Step = (
    EnsureConfigMap
    | EnsureHeadless
    | EnsureBudget
    | EnsureStatefulSet
    | EnsureService
    | DeleteGeneration
    | DeleteService
    | AddFinalizer
    | RemoveFinalizer
)

Plan = Do[Step] | WriteStatus[EngineStatus] | Wait
