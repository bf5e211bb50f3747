"""What can be asked of an API server: where each resource lives and what its objects decode into.

Resource + name ──► path on the wire ──► bytes ──► Struct

A domain kind plugs in by one line, beside the built-in ones below: `CLAIMS = of(RESOURCE, Claim)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from boilerhouse.core.crd import CustomResource
from boilerhouse.platform.kube import kinds
from boilerhouse.platform.kube.kinds import Object, Page
from boilerhouse.platform.kube.status import BadRequest

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


class Key(NamedTuple):
    """Where an object is: `namespace` is empty for what lives outside of namespaces."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(item: Object) -> Key:
    return Key(item.metadata.namespace, item.metadata.name)


@dataclass(frozen=True, eq=False)
class Resource(Generic[T_co]):
    """One resource of the API. `type` is the Struct that its objects are read into."""

    group: str
    version: str
    plural: str
    kind: str
    type: type[T_co]
    namespaced: bool = True
    decoder: msgspec.json.Decoder[Any] = field(init=False, repr=False)
    page_decoder: msgspec.json.Decoder[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Built once: making a decoder costs far more than using it.
        object.__setattr__(self, "decoder", msgspec.json.Decoder(self.type))
        object.__setattr__(self, "page_decoder", msgspec.json.Decoder(Page[self.type]))  # type: ignore[name-defined]  # a value, not an annotation

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def decode(self, body: bytes | msgspec.Raw) -> T_co:
        """Read one object; `msgspec.MsgspecError` if the bytes are not one."""
        item: T_co = self.decoder.decode(body)
        return item

    def path(self, namespace: str, name: str | None = None, subresource: str = "") -> str:
        """Build the (decoded) path; no name (None) means all of them.

        Parts that would lead elsewhere are refused, an empty name first of all: deleting the object
        called "" would delete every one.
        """
        if not self.namespaced:
            namespace = ""
        elif not namespace and name is not None:
            raise BadRequest(f"{self.kind} {name}: a namespace is needed", kind=self.plural)
        path = _home(self.group, self.version, namespace, self.plural)
        if name is not None:
            path = f"{path}/{segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@lru_cache(maxsize=1024)  # as many as a process has resources and namespaces, for all calls
def _home(group: str, version: str, namespace: str, plural: str) -> str:
    """Build the path of all objects of a resource."""
    api = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{api}/namespaces/{segment(namespace)}/{plural}" if namespace else f"{api}/{plural}"


_MISREAD = re.compile(r"[/%\\?#\x00-\x1f]")


def segment(text: str) -> str:
    """Pass a name on as one part of a path, or refuse what would be read as more than one."""
    if not text or text in (".", "..") or _MISREAD.search(text):
        raise BadRequest(f"{text!r} cannot be the name of an object")
    return text


def of(kind: CustomResource, type: type[T]) -> Resource[T]:  # noqa: A002  as the field
    """Return the resource of a kind of ours, read into `type`."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, type)


PODS = Resource("", "v1", "pods", "Pod", kinds.Pod)
SERVICES = Resource("", "v1", "services", "Service", kinds.Service)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", kinds.ConfigMap)
SECRETS = Resource("", "v1", "secrets", "Secret", kinds.Secret)
# Only their metadata: what is not read cannot leak from a cache.
SECRET_NAMES = Resource("", "v1", "secrets", "Secret", kinds.Bare)
PVCS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", kinds.VolumeClaim)
EVENTS = Resource("", "v1", "events", "Event", kinds.Event)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", kinds.Bare)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", kinds.Bare)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", kinds.Bare)
NODES = Resource("", "v1", "nodes", "Node", kinds.Node, namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", kinds.Namespace, namespaced=False)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", kinds.StatefulSet)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", kinds.Lease)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", kinds.Bare)
NETWORK_POLICIES = Resource(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", kinds.Dynamic
)
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", kinds.Dynamic
)
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    kinds.Crd,
    namespaced=False,
)
