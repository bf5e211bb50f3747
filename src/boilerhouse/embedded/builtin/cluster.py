"""Namespaces, Nodes, Leases and Events: what is not about one application."""

from __future__ import annotations

from boilerhouse.embedded.builtin.rules import labels, not_negative
from boilerhouse.embedded.kind import Body
from boilerhouse.embedded.selectors import is_label_key
from boilerhouse.kube.status import Cause, duplicate, invalid_value, required, unsupported_value

_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def default_node(body: Body) -> None:
    status = body["status"]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def validate_node(body: Body, old: Body | None) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(body["spec"].get("taints", ())):
        field = f"metadata.taints[{index}]"  # where a real server says they are
        causes += labels(field, {taint["key"]: taint.get("value", "")})
        if taint["effect"] not in _EFFECTS:
            causes.append(unsupported_value(f"{field}.effect", taint["effect"], _EFFECTS))
        if (taint["key"], taint["effect"]) in seen:
            causes.append(duplicate(field, taint))
        seen.add((taint["key"], taint["effect"]))
    return causes


def validate_lease(body: Body, _old: Body | None) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        words = "must be greater than 0"
        causes.append(invalid_value("spec.leaseDurationSeconds", seconds, words))
    return causes + not_negative("spec.leaseTransitions", spec.get("leaseTransitions", 0))


def validate_event(body: Body, old: Body | None) -> list[Cause]:
    if not body.get("eventTime"):
        return _namespace_causes(body)
    causes: list[Cause] = []
    said = ("reportingComponent", "reportingInstance", "action", "reason")
    causes += [required(field) for field in said if not body.get(field)]
    component = body.get("reportingComponent", "")
    if not is_label_key(component):
        causes.append(invalid_value("reportingComponent", component, "is no qualified name"))
    return causes


def _namespace_causes(body: Body) -> list[Cause]:
    namespace = body["metadata"].get("namespace", "")
    about = body["involvedObject"].get("namespace", "")
    # What has no namespace has its events in default, or in its own system namespace.
    if about == namespace or (not about and namespace in ("default", "kube-system")):
        return []
    return [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]
