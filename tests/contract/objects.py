"""Objects the suite works with, as plain dicts, and the custom resources it installs."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]
GROUP = "contract.example.com"


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Body:
    metadata: Body = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Body:
    container = {"name": "c", "image": "localhost/echo:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def widget(name: str, **spec: Any) -> Body:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


def gadget(name: str, **rest: Any) -> Body:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        **rest,
    }


def owned(body: Body, owner: Body, *, block: bool = False) -> Body:
    """Return the object with an owner reference to one that was read from the API."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def crd(plural: str, kind: str, schema: Body, *, group: str = GROUP, **version: Any) -> Body:
    """A definition with one version, v1. `scope` and `names` may be among the keywords."""
    scope = version.pop("scope", "Namespaced")
    names = version.pop("names", {})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, **names},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


_SPEC: Body = {
    "type": "object",
    "default": {},
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "frozen": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen"}],
        },
        "replicas": {"type": "integer", "minimum": 0},
        "at": {"type": "string", "format": "date-time"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "weight": {"type": "integer", "default": 1},
                },
            },
        },
        "names": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "string"},
        },
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "note": {"type": "string", "nullable": True},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
            "message": "low must not exceed high",
        }
    ],
}
_STATUS: Body = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "observedGeneration": {"type": "integer"},
    },
}

WIDGETS = crd(
    "widgets",
    "Widget",
    {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}},
    names={"shortNames": ["wd"], "categories": ["all"]},
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    additionalPrinterColumns=[
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Code", "type": "string", "jsonPath": ".spec.code", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
    selectableFields=[{"jsonPath": ".spec.colour"}],
)
# Cluster-scoped, without subresources and with a free schema.
GADGETS = crd(
    "gadgets",
    "Gadget",
    {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    scope="Cluster",
)
