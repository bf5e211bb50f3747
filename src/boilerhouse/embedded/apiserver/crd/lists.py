"""List and map types in a CRD's schema: which may be declared, and what their items must be.

structural.py ──► list_causes

A list of type map finds its items by key, so the keys must be there and be scalars; a list of type
set compares whole items, so those must be atomic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

Tree = Mapping[str, Any]


def list_causes(schema: Tree, path: str) -> list[Cause]:
    """Return what is wrong with the list and map types that one schema node declares."""
    causes: list[Cause] = []
    named = schema.get("type") or ""
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        causes.append(
            invalid_value(
                f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"
            )
        )
    for key, wanted, values in (
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ):
        kind = schema.get(key)
        if kind is None:
            continue
        message = f"must be {wanted} if {key} is specified"
        if not named:
            causes.append(required(f"{path}.type", message))
        elif named != wanted:
            causes.append(invalid_value(f"{path}.type", named, message))
        if kind not in values:
            causes.append(unsupported_value(f"{path}.{key}", kind, values))
    return causes + _lists(schema, path)


def _lists(schema: Tree, path: str) -> list[Cause]:
    causes: list[Cause] = []
    kind, keys = (
        schema.get("x-kubernetes-list-type"),
        schema.get("x-kubernetes-list-map-keys") or (),
    )
    items = schema.get("items")
    if keys and kind != "map":
        message = "must be map if x-kubernetes-list-map-keys is non-empty"
        causes.append(
            required(f"{path}.x-kubernetes-list-type", message)
            if kind is None
            else invalid_value(f"{path}.x-kubernetes-list-type", kind, message)
        )
    if kind == "map":
        if not keys:
            causes.append(
                required(
                    f"{path}.x-kubernetes-list-map-keys",
                    "must not be empty if x-kubernetes-list-type is map",
                )
            )
        if items is None:
            causes.append(
                required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
            )
    if kind not in ("set", "map") or not isinstance(items, Mapping):
        return causes
    if items.get("nullable"):
        causes.append(
            forbidden_field(
                f"{path}.items.nullable",
                f"cannot be nullable when x-kubernetes-list-type is {kind}",
            )
        )
    if kind == "set":
        return causes + _set_items(items, path)
    if items.get("type") != "object":
        causes.append(
            invalid_value(
                f"{path}.items.type",
                items.get("type", ""),
                "must be object if x-kubernetes-list-type is map",
            )
        )
        return causes
    props = items.get("properties") or {}
    for index, key in enumerate(keys):
        where = f"{path}.items.properties[{key}]"
        if key in keys[:index]:
            causes.append(
                invalid_value(
                    f"{path}.x-kubernetes-list-map-keys",
                    list(keys),
                    "must not contain duplicate entries",
                )
            )
        if key not in props:
            causes.append(
                invalid_value(
                    f"{path}.x-kubernetes-list-map-keys",
                    list(keys),
                    "entries must all be names of item properties",
                )
            )
            continue
        if props[key].get("type") in ("array", "object"):
            causes.append(
                invalid_value(f"{where}.type", props[key]["type"], "must be a scalar type")
            )
        if key not in (items.get("required") or ()) and props[key].get("default") is None:
            causes.append(required(f"{where}.default", "a key must have a default or be required"))
        if props[key].get("nullable"):
            causes.append(forbidden_field(f"{where}.nullable", "a key cannot be nullable"))
    return causes


def _set_items(items: Tree, path: str) -> list[Cause]:
    message = "must be atomic as item of a list with x-kubernetes-list-type=set"
    kind = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and kind not in (None, "atomic"):
        return [invalid_value(f"{path}.items.x-kubernetes-list-type", kind, message)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        kind = items.get("x-kubernetes-map-type")
        return [invalid_value(f"{path}.items.x-kubernetes-map-type", kind, message)]
    return []
