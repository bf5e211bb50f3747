"""The schemas that every OpenAPI document shares: metadata of objects and lists, patches, Status.

Data only; `openapi.py` puts them beside the kinds. The merge hints are what kubectl computes its
strategic patches from.
"""

from __future__ import annotations

from typing import Any, Final

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META: Final = _META + "ObjectMeta"
OWNER_REFERENCE: Final = _META + "OwnerReference"
MANAGED_FIELDS: Final = _META + "ManagedFieldsEntry"
LIST_META: Final = _META + "ListMeta"
PATCH: Final = _META + "Patch"
TIME: Final = _META + "Time"
STATUS: Final = _META + "Status"
DELETE_OPTIONS: Final = _META + "DeleteOptions"
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"


def ref(name: str) -> dict[str, str]:
    """Point to a schema of the same document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def _strings(description: str) -> dict[str, Any]:
    strings = {"type": "string", "default": ""}
    return {"type": "object", "description": description, "additionalProperties": strings}


def _of(name: str, description: str) -> dict[str, Any]:
    # A reference with a description beside it takes an allOf of one.
    return {"description": description, "allOf": [ref(name)]}


API_VERSION: Final = _text("Group and version of this object, for example apps/v1.")
KIND: Final = _text("The type of this object, in CamelCase. Cannot be changed.")
OBJECT_METADATA: Final = _of(OBJECT_META, "Name, labels and what the server keeps about an object.")
LIST_METADATA: Final = _of(LIST_META, "Where in the history this list was taken.")

SHARED: Final[dict[str, dict[str, Any]]] = {
    OBJECT_META: {
        "type": "object",
        "description": "What every stored object carries: who it is, whose it is, how old it is.",
        "properties": {
            "annotations": _strings("Free text by key, for tools; not used to select objects."),
            "creationTimestamp": _of(TIME, "When the server made the object. Read-only."),
            "deletionGracePeriodSeconds": _whole(
                "Seconds the object may take to end, once it is being deleted. Read-only."
            ),
            "deletionTimestamp": _of(
                TIME, "When the object is to be gone; set by a deletion request. Read-only."
            ),
            "finalizers": {
                "type": "array",
                "description": "Who must act before a deleted object goes; none: it goes at once.",
                "items": {"type": "string", "default": ""},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": _text("A prefix; the server appends a suffix where no name is given."),
            "generation": _whole("Counts changes of what is desired. Read-only."),
            "labels": _strings("Short values by key, to select objects with."),
            "managedFields": {
                "type": "array",
                "description": "Who set which field; not kept by this server.",
                "items": {"default": {}, "allOf": [ref(MANAGED_FIELDS)]},
                "x-kubernetes-list-type": "atomic",
            },
            "name": _text(
                "The object's name, unique in its namespace and kind. Cannot be changed."
            ),
            "namespace": _text("The space in which the name is unique. Cannot be changed."),
            "ownerReferences": {
                "type": "array",
                "description": "The objects this one belongs to; it goes when all of them have.",
                "items": {"default": {}, "allOf": [ref(OWNER_REFERENCE)]},
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "uid",
                "x-kubernetes-patch-strategy": "merge",
            },
            "resourceVersion": _text(
                "The version of the stored object; sent back, a write fails if it has moved on."
            ),
            "selfLink": _text("No longer set by any server."),
            "uid": _text("Tells this object from any other of the same name. Read-only."),
        },
    },
    OWNER_REFERENCE: {
        "type": "object",
        "description": "One owner in the same namespace, or without a namespace.",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": _text("The owner's group and version."),
            "blockOwnerDeletion": _flag(
                "The owner, deleted in the foreground, waits until this object is gone."
            ),
            "controller": _flag("This owner manages the object; at most one may."),
            "kind": _text("The owner's kind."),
            "name": _text("The owner's name."),
            "uid": _text("The owner's uid."),
        },
        "x-kubernetes-map-type": "atomic",
    },
    MANAGED_FIELDS: {
        "type": "object",
        "description": "One manager of fields.",
        "properties": {
            "apiVersion": _text("The version the fields are named in."),
            "fieldsType": _text("FieldsV1."),
            "fieldsV1": {"type": "object", "description": "The fields, as a tree of keys."},
            "manager": _text("Who."),
            "operation": _text("Apply or Update."),
            "subresource": _text("Through which subresource."),
            "time": _of(TIME, "When."),
        },
    },
    LIST_META: {
        "type": "object",
        "description": "What a list says about itself.",
        "properties": {
            "continue": _text("Give this back to read on where this list ended."),
            "remainingItemCount": _whole("How many more there are, where that is known."),
            "resourceVersion": _text("Watch from here to miss nothing."),
            "selfLink": _text("No longer set by any server."),
        },
    },
    PATCH: {"type": "object", "description": "A change, in the form its content type names."},
    TIME: {"type": "string", "format": "date-time", "description": "An RFC 3339 moment."},
    STATUS: {
        "type": "object",
        "description": "How a request ended when it did not end with an object.",
        "properties": {
            "apiVersion": API_VERSION,
            "code": {"type": "integer", "format": "int32", "description": "The HTTP status."},
            "details": {"type": "object", "description": "What it is about, and every cause."},
            "kind": KIND,
            "message": _text("The sentence for people."),
            "metadata": LIST_METADATA,
            "reason": _text("The word for programs."),
            "status": _text("Success or Failure."),
        },
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Status"}],
    },
    DELETE_OPTIONS: {
        "type": "object",
        "description": "How to delete.",
        "properties": {
            "apiVersion": API_VERSION,
            "dryRun": {"type": "array", "items": {"type": "string"}, "description": "All = try."},
            "gracePeriodSeconds": _whole("Seconds to end in; 0 = at once."),
            "kind": KIND,
            "preconditions": {
                "type": "object",
                "description": "Delete only the object that is still this one.",
                "properties": {
                    "resourceVersion": _text("The version it must have."),
                    "uid": _text("The uid it must have."),
                },
            },
            "propagationPolicy": _text("Orphan, Background or Foreground: what owned objects do."),
        },
    },
    SCALE: {
        "type": "object",
        "description": "How many are wanted and how many there are, whatever the kind.",
        "properties": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": OBJECT_METADATA,
            "spec": {
                "type": "object",
                "description": "What is wanted.",
                "properties": {"replicas": {"type": "integer", "format": "int32", "default": 0}},
            },
            "status": {
                "type": "object",
                "description": "What there is.",
                "required": ["replicas"],
                "properties": {
                    "replicas": {"type": "integer", "format": "int32", "default": 0},
                    "selector": _text("The label selector that finds them."),
                },
            },
        },
        "x-kubernetes-group-version-kind": [
            {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        ],
    },
}
