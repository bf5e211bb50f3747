"""The Kubernetes objects we read, as Structs of only the fields we look at.

bytes ──► Struct (here) ──► Seen

Decoding what we use and skipping the rest is some sixty times faster than a generated model of
everything. Nothing here is ever sent: writes are plain dicts, so a field we do not know is never
lost by reading an object and writing it back. Objects are frozen because an informer's cache hands
the same one to everybody. Every field has a default, since the wire leaves out what is empty.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")
Spec = TypeVar("Spec")
Status = TypeVar("Status")


class Part(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A piece of an object: camelCase on the wire, unknown fields skipped."""


class Owner(Part, frozen=True):
    """Who an object belongs to."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(Part, frozen=True):
    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[Owner] = []


class Object(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


class ListMeta(Part, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class Page(Part, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class Bare(Part, frozen=True):
    """An object of which only the metadata matters."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Custom(Part, Generic[Spec, Status], kw_only=True, frozen=True):
    """An object of a kind of our own: `Custom[ClaimSpec, ClaimStatus]`."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec
    status: Status | None = None


class Dynamic(Part, frozen=True):
    """An object whose body is looked at as plain data."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Condition(Part, frozen=True):
    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Port(Part, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class EnvVar(Part, frozen=True):
    name: str = ""
    value: str = ""


class Resources(Part, frozen=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class Asked(Part, frozen=True):
    path: str = ""
    port: int | str = 0


class Probe(Part, frozen=True):
    http_get: Asked | None = None
    tcp_socket: Asked | None = None


class Container(Part, frozen=True):
    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    ports: list[Port] = []
    resources: Resources = Resources()
    restart_policy: str = ""
    readiness_probe: Probe | None = None


class Volume(Part, frozen=True):
    name: str = ""


class PodSpec(Part, frozen=True):
    node_name: str = ""
    restart_policy: str = ""
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[Volume] = []


class Waiting(Part, frozen=True):
    reason: str = ""
    message: str = ""


class Running(Part, frozen=True):
    started_at: datetime | None = None


class Terminated(Part, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Part, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Part, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: datetime | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []

    def condition(self, name: str) -> Condition | None:
        """Return the condition of that type if it was ever set."""
        for condition in self.conditions:
            if condition.type == name:
                return condition
        return None


class Pod(Bare, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether kubelet says Ready. A Pod that is being deleted may still say so."""
        found = self.status.condition("Ready")
        return found is not None and found.status == "True"


class ServicePort(Part, frozen=True):
    name: str = ""
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0
    protocol: str = "TCP"


class ServiceSpec(Part, frozen=True):
    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []


class Service(Bare, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Bare, frozen=True):
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}


class Secret(Bare, frozen=True):
    """`data` arrives decoded from base64."""

    type: str = ""
    data: dict[str, bytes] = {}


class VolumeClaimSpec(Part, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []


class VolumeClaimStatus(Part, frozen=True):
    phase: str = ""
    capacity: dict[str, str] = {}


class VolumeClaim(Bare, frozen=True):
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()


class ObjectReference(Part, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Bare, frozen=True):
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class Taint(Part, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeAddress(Part, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(Part, frozen=True):
    conditions: list[Condition] = []
    addresses: list[NodeAddress] = []
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class Node(Bare, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Part, frozen=True):
    phase: str = ""


class Namespace(Bare, frozen=True):
    status: NamespaceStatus = NamespaceStatus()


class StatefulSetSpec(Part, frozen=True):
    replicas: int = 1
    service_name: str = ""


class StatefulSetStatus(Part, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    observed_generation: int = 0


class StatefulSet(Bare, frozen=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class LeaseSpec(Part, frozen=True):
    """The times stay text: they are another machine's, never to be calculated with."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Bare, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class ScaleSpec(Part, frozen=True):
    replicas: int = 0


class ScaleStatus(Part, frozen=True):
    replicas: int = 0
    selector: str = ""


class Scale(Bare, frozen=True):
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class CrdNames(Part, frozen=True):
    plural: str = ""
    kind: str = ""


class CrdSpec(Part, frozen=True):
    group: str = ""
    scope: str = ""
    names: CrdNames = CrdNames()


class CrdStatus(Part, frozen=True):
    conditions: list[Condition] | None = None  # null until the server has looked at it


class Crd(Bare, frozen=True):
    spec: CrdSpec = CrdSpec()
    status: CrdStatus = CrdStatus()

    @property
    def established(self) -> bool:
        """Whether the server serves it by now."""
        return any(
            c.type == "Established" and c.status == "True" for c in self.status.conditions or ()
        )
