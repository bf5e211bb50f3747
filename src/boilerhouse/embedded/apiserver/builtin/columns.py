"""Printer columns of the built-in kinds other than Pods: the same as a real server prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from boilerhouse.embedded.apiserver.kind import Body, Column
from boilerhouse.embedded.apiserver.request.table import NAME, age, age_cell
from boilerhouse.embedded.fields.fieldpath import reader

_NONE = "<none>"
_UNSET = "<unset>"
_UNKNOWN = "<unknown>"


def _column(name: str, cell: Callable[[Body], Any], *, wide: bool = False) -> Column:
    def timeless(body: Body, _now: datetime) -> Any:
        return cell(body)

    return Column(name, priority=int(wide), cell=timeless)


def _at(*path: str, empty: Any = "") -> Callable[[Body], Any]:
    """Read a nested field; absent or empty is `empty`."""

    field = reader(".".join(path))

    def read(body: Body) -> Any:
        value = field(body)
        return empty if value in (None, "") else value

    return read


_AGE = Column("Age", description="Time since the object was created.", cell=age_cell)
_CREATED = Column(
    "Created At",
    type="date",
    description="When the object was created.",
    cell=lambda body, _: body["metadata"].get("creationTimestamp"),
)


def _pairs(found: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((found or {}).items())) or _NONE


def _selector(selector: Body | None) -> str:
    """Write a LabelSelector as a label selector's text."""
    selector = selector or {}
    parts = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values", ())))
        parts[key] = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "DoesNotExist": f"!{key}",
        }.get(operator, key)
    return ",".join(parts[key] for key in sorted(parts)) or _NONE


def _service_ports(body: Body) -> str:
    ports = body.get("spec", {}).get("ports", ())
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in ports) or _NONE


def _claim_status(body: Body) -> str:
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(body.get("status", {}).get("phase", ""))


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _claim_capacity(body: Body) -> str:
    if not body.get("spec", {}).get("volumeName"):
        return ""
    return str(body.get("status", {}).get("capacity", {}).get("storage", "0"))


def _claim_modes(body: Body) -> str:
    if not body.get("spec", {}).get("volumeName"):
        return ""
    modes = body.get("status", {}).get("accessModes", ())
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _node_status(body: Body) -> str:
    conditions = body.get("status", {}).get("conditions", ())
    ready = [c.get("status") for c in conditions if c.get("type") == "Ready"]
    words = ["Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"]
    if body.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(body: Body) -> str:
    roles = set()
    for key, value in (body["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(role for role in roles if role)) or _NONE


def _node_address(kind: str) -> Callable[[Body], str]:
    def read(body: Body) -> str:
        addresses = body.get("status", {}).get("addresses", ())
        return next((a["address"] for a in addresses if a.get("type") == kind), _NONE)

    return read


def _usage(of_limits: bool) -> Callable[[Body], str]:
    """Write `name: used/hard` for a quota's requests, or for its limits."""

    def read(body: Body) -> str:
        status = body.get("status", {})
        hard, used = status.get("hard", {}), status.get("used", {})
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits") is of_limits
        )

    return read


def _some(values: Iterable[str], empty: str) -> str:
    """List three values and say how many more there are."""
    found = list(values)
    if not found:
        return empty
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more


def _slice_ports(body: Body) -> str:
    ports = body.get("ports") or ()
    return _some((str(port.get("port") or port.get("name") or "*") for port in ports), _UNSET)


def _slice_addresses(body: Body) -> str:
    endpoints = body.get("endpoints") or ()
    return _some((a for endpoint in endpoints for a in endpoint.get("addresses", ())), _UNSET)


def _replicas(body: Body) -> str:
    ready = body.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{body.get('spec', {}).get('replicas', 0)}"


def _containers(field: str) -> Callable[[Body], str]:
    def read(body: Body) -> str:
        spec = body.get("spec", {}).get("template", {}).get("spec", {})
        return ",".join(container.get(field, "") for container in spec.get("containers", ()))

    return read


def _event_first(body: Body, now: datetime) -> str:
    return age(body.get("firstTimestamp") or body.get("eventTime"), now)


def _event_last(body: Body, now: datetime) -> str:
    series = body.get("series") or {}
    last = series.get("lastObservedTime") or body.get("lastTimestamp")
    return age(last, now) if last else _event_first(body, now)


def _event_object(body: Body) -> str:
    about = body.get("involvedObject", {})
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(body: Body) -> str:
    source = body.get("source") or {}
    component = source.get("component") or body.get("reportingComponent", "")
    host = source.get("host") or body.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _event_count(body: Body) -> int:
    series = body.get("series") or {}
    return int(series.get("count") or body.get("count") or 1)


NAMESPACE = (NAME, _column("Status", _at("status", "phase")), _AGE)
SERVICE = (
    NAME,
    _column("Type", _at("spec", "type")),
    _column("Cluster-IP", _at("spec", "clusterIP", empty=_NONE)),
    _column("External-IP", lambda _: _NONE),
    _column("Port(s)", _service_ports),
    _AGE,
    _column("Selector", lambda body: _pairs(body.get("spec", {}).get("selector")), wide=True),
)
CONFIG_MAP = (
    NAME,
    _column("Data", lambda body: len(body.get("data", ())) + len(body.get("binaryData", ()))),
    _AGE,
)
SECRET = (
    NAME,
    _column("Type", _at("type")),
    _column("Data", lambda body: len(body.get("data", ()))),
    _AGE,
)
CLAIM = (
    NAME,
    _column("Status", _claim_status),
    _column("Volume", _at("spec", "volumeName")),
    _column("Capacity", _claim_capacity),
    _column("Access Modes", _claim_modes),
    _column("StorageClass", _at("spec", "storageClassName")),
    _column("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", empty=_UNSET)),
    _AGE,
    _column("VolumeMode", _at("spec", "volumeMode", empty=_UNSET), wide=True),
)
EVENT = (
    Column("Last Seen", cell=_event_last),
    _column("Type", _at("type")),
    _column("Reason", _at("reason")),
    _column("Object", _event_object),
    _column("Subobject", _at("involvedObject", "fieldPath"), wide=True),
    _column("Source", _event_source, wide=True),
    _column("Message", lambda body: body.get("message", "").strip()),
    Column("First Seen", priority=1, cell=_event_first),
    _column("Count", _event_count, wide=True),
    Column("Name", format="name", priority=1, cell=NAME.cell),
)
SERVICE_ACCOUNT = (NAME, _column("Secrets", lambda body: len(body.get("secrets", ()))), _AGE)
NODE = (
    NAME,
    _column("Status", _node_status),
    _column("Roles", _node_roles),
    _AGE,
    _column("Version", _at("status", "nodeInfo", "kubeletVersion")),
    _column("Internal-IP", _node_address("InternalIP"), wide=True),
    _column("External-IP", _node_address("ExternalIP"), wide=True),
    _column("OS-Image", _at("status", "nodeInfo", "osImage", empty=_UNKNOWN), wide=True),
    _column(
        "Kernel-Version", _at("status", "nodeInfo", "kernelVersion", empty=_UNKNOWN), wide=True
    ),
    _column(
        "Container-Runtime",
        _at("status", "nodeInfo", "containerRuntimeVersion", empty=_UNKNOWN),
        wide=True,
    ),
)
QUOTA = (NAME, _column("Request", _usage(False)), _column("Limit", _usage(True)), _AGE)
LIMIT_RANGE = DEFINITION = (NAME, _CREATED)
STATEFUL_SET = (
    NAME,
    _column("Ready", _replicas),
    _AGE,
    _column("Containers", _containers("name"), wide=True),
    _column("Images", _containers("image"), wide=True),
)
LEASE = (NAME, _column("Holder", _at("spec", "holderIdentity")), _AGE)
ENDPOINT_SLICE = (
    NAME,
    _column("AddressType", _at("addressType")),
    _column("Ports", _slice_ports),
    _column("Endpoints", _slice_addresses),
    _AGE,
)
NETWORK_POLICY = (
    NAME,
    _column("Pod-Selector", lambda body: _selector(body.get("spec", {}).get("podSelector"))),
    _AGE,
)
DISRUPTION_BUDGET = (
    NAME,
    _column("Min Available", lambda body: str(_at("spec", "minAvailable", empty="N/A")(body))),
    _column("Max Unavailable", lambda body: str(_at("spec", "maxUnavailable", empty="N/A")(body))),
    Column(
        "Allowed Disruptions",
        type="integer",
        cell=lambda body, _: body.get("status", {}).get("disruptionsAllowed", 0),
    ),
    _AGE,
)
