"""Namespaces, Nodes, Leases and Events: what is not about one application."""

from __future__ import annotations

from boilerhouse.embedded.apiserver.builtin.rules import labels, not_negative
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.selectors import is_label_key
from boilerhouse.platform.kube.status import (
    Cause,
    duplicate,
    invalid_value,
    required,
    unsupported_value,
)

_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


# Holds a namespace until its content is gone; only namespaces/finalize takes it away.
NAMESPACE_FINALIZER = "kubernetes"


def born_namespace(body: Body) -> None:
    """Make a namespace live, and hold it. Types are not yet known to be right."""
    spec = body.get("spec")
    sent = spec.get("finalizers") if isinstance(spec, dict) else None
    finalizers = sent if isinstance(sent, list) else []
    if NAMESPACE_FINALIZER not in finalizers:
        body["spec"] = {"finalizers": [*finalizers, NAMESPACE_FINALIZER]}
    body["status"] = {"phase": "Active"}


def carried_namespace(body: Body, old: Body) -> None:
    """Leave to namespaces/finalize what holds a namespace."""
    finalizers = old.get("spec", {}).get("finalizers")
    body["spec"] = {"finalizers": finalizers} if finalizers else {}


def default_namespace(body: Body) -> None:
    """Label a namespace with its name, so that selectors can tell it."""
    metadata = body["metadata"]
    labels = metadata.setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")


def validate_namespace(body: Body, _old: Body | None) -> list[Cause]:
    phase = body.get("status", {}).get("phase", "")
    dying = "deletionTimestamp" in body["metadata"]
    if dying and phase != "Terminating":
        words = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid_value("status.Phase", phase, words)]
    if not dying and phase not in ("Active", ""):
        words = "may only be 'Active' if `deletionTimestamp` is empty"
        return [invalid_value("status.Phase", phase, words)]
    return []


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
