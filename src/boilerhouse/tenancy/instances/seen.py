"""What decisions may know of instances and of their blueprint: frozen values, no I/O.

kube Pod ─► pods.py ─► InstanceSeen ─┐
Workload ─► blueprints.py ─► Blueprint ┴─► Seen of claims and pools
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadSpec


class ClaimRef(Struct, frozen=True):
    """Which claim has an instance: the name finds it, the UID says which of that name it was."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.name}/{self.uid}"

    @classmethod
    def parse(cls, text: str) -> ClaimRef | None:
        """Read the annotation; None if there is none. A mangled one belongs to nobody we know."""
        if not text:
            return None
        name, _, uid = text.partition("/")
        return cls(name, uid)


class RestoredSeen(Struct, frozen=True):
    """Whose files are in an instance: a stored version, and the container that ran before.

    Without a container nothing ran, or it was left running; else only another one counts.
    """

    digest: str
    container: str = ""

    def __str__(self) -> str:
        return f"{self.digest}/{self.container}"

    @classmethod
    def parse(cls, text: str) -> RestoredSeen | None:
        """Read the annotation; None if there is none."""
        digest, _, container = text.partition("/")
        return cls(digest, container) if digest else None


class InstanceSeen(Struct, frozen=True):
    """One Pod of ours at one moment; `uid` and `version` go into everything decided about it."""

    name: str
    uid: str
    version: str  # resourceVersion
    workload: str
    template: str
    created_at: datetime
    claim: ClaimRef | None = None
    tenant: str = ""  # the id itself
    pool: str = ""
    pool_status: str = ""
    source: str = ""
    node: str = ""
    ip: str = ""
    port: int = 0  # where its first exposed port is reached; 0 if it exposes none
    running: bool = False
    ready: bool = False
    waited: timedelta = timedelta(0)  # for how long it was seen not to be usable (patience.py)
    terminating: bool = False
    grace: int = 0  # seconds a terminating one was given
    ended: str = ""  # Failed or Succeeded, with the reason: it will never run again
    unschedulable: str = ""  # the scheduler's words
    image_failure: str = ""  # why the image does not arrive
    trouble: str = ""  # why else it does not get ready: crash loops, a container that cannot start
    backing_off: bool = False  # the trouble is a crash loop, and its node lets it wait
    unready: str = ""  # what its readiness probe says, while nothing else is wrong (readiness.py)
    restarts: int = 0
    crashed: bool = False  # it has ended by itself before: its node may let it wait next time
    agent_restarts: int = 0
    overlays: bool = False  # it has directories that are the tenant's own
    awaits: str = ""  # the version that it was born to wait for, before the tenant's process starts
    restored: RestoredSeen | None = None
    container: str = ""  # id of the tenant's container, of the last one if none runs
    tenant_runs: bool = False
    agent_runs: bool = False
    agent_ready: bool = True  # False: it has started, and says that the tenant is frozen

    @property
    def incarnation(self) -> str:
        """What changes whenever a process of it may have begun anew."""
        return f"{self.uid}/{self.container}/{self.restarts}/{self.agent_restarts}"

    @property
    def life(self) -> str:
        """What tells one life of its agent from the next: what lay in memory is gone by then."""
        return f"{self.uid}/{self.agent_restarts}"

    @property
    def usable(self) -> bool:
        """Whether a tenant can be sent there: running, ready, reachable and to stay."""
        return self.running and self.ready and bool(self.ip) and not self.terminating


class Blueprint(Struct, frozen=True):
    """A workload at one moment. `template` is there when it is Ready, and `spec` too.

    Of one that is not Ready `spec` is what it says, as long as that can be read.
    """

    name: str
    phase: WorkloadPhase
    detail: str = ""
    deleting: bool = False
    template: str = ""
    spec: WorkloadSpec | None = None

    @property
    def ready(self) -> bool:
        """Whether new instances can be made of it."""
        return self.phase == WorkloadPhase.READY and not self.deleting

    @property
    def keeps_files(self) -> bool:
        """Whether instances of it have directories that are saved and restored."""
        return self.spec is not None and bool(self.spec.filesystem.overlay_dirs)

    @property
    def has_hooks(self) -> bool:
        """Whether anything is run in instances of it on their way in or out."""
        return self.spec is not None and self.spec.hooks is not None
