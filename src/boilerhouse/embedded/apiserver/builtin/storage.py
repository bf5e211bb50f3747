"""PersistentVolumeClaims: defaults, rules, and what may change."""

from __future__ import annotations

from boilerhouse.embedded.apiserver.builtin.rules import dns_subdomain, label_selector
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.quantity import ZERO, Quantity, parse
from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def default(body: Body) -> None:
    body["spec"].setdefault("volumeMode", "Filesystem")
    body["status"].setdefault("phase", "Pending")


def born(body: Body) -> None:
    body["status"] = {"phase": "Pending"}


def validate(body: Body, old: Body | None) -> list[Cause]:
    causes = spec_causes(body["spec"])
    return causes if old is None else causes + _change_causes(body, old)


def spec_causes(spec: Body, field: str = "spec") -> list[Cause]:
    """Check what a claim asks for, in a claim and in a template of one alike."""
    causes: list[Cause] = []
    modes = spec.get("accessModes", [])
    if not modes:
        causes.append(required(f"{field}.accessModes", "at least 1 access mode is required"))
    causes += [
        unsupported_value(f"{field}.accessModes", mode, _MODES)
        for mode in modes
        if mode not in _MODES
    ]
    size = spec["resources"].get("requests", {}).get("storage")
    if size is None:
        causes.append(required(f"{field}.resources[storage]"))
    elif parse(size) <= ZERO:
        words = "must be greater than zero"
        causes.append(invalid_value(f"{field}.resources[storage]", size, words))
    if spec.get("storageClassName"):
        causes += dns_subdomain(f"{field}.storageClassName", spec["storageClassName"])
    return causes + label_selector(f"{field}.selector", spec.get("selector"))


def _change_causes(body: Body, old: Body) -> list[Cause]:
    spec, before = dict(body["spec"]), dict(old["spec"])
    size, least = _storage(spec), _storage(before)
    bound = old.get("status", {}).get("phase") == "Bound"
    if not before.get("volumeName") and not bound:
        spec.pop("volumeName", None)  # binding is a change of its own, made once
    if bound:
        spec.pop("resources", None)
        before.pop("resources", None)
    if spec != before:
        words = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        return [forbidden_field("spec", words)]
    if size < least:
        words = "field can not be less than status.capacity"
        return [forbidden_field("spec.resources.requests.storage", words)]
    return []


def _storage(spec: Body) -> Quantity:
    return parse(spec["resources"].get("requests", {}).get("storage", "0"))
