"""Is a CRD's schema one that can be served? Structural, free of forbidden words, defaults valid.

CRD ──► rules.py ──► schema_causes ──► causes (paths inside the schema)

A structural schema says the type of everything it names, outside of allOf, anyOf, oneOf and not,
which may only narrow values further. That is what makes pruning and defaulting possible at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from boilerhouse.embedded.apiserver.crd.lists import list_causes
from boilerhouse.embedded.apiserver.schemas.regex import BadPattern, compile_re2
from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

Tree = Mapping[str, Any]
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META: Final = ("metadata", "kind", "apiVersion")
_NEVER: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_NARROWING: Final = ("allOf", "anyOf", "oneOf")
_ONLY_OUTSIDE: Final = (
    "type", "default", "title", "description", "nullable", "additionalProperties",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    "x-kubernetes-map-type", "x-kubernetes-validations",
)  # fmt: skip
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_AT_ROOT_WITH_STATUS: Final = frozenset({
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum",
    "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
    "multipleOf", "required", "items", "properties", "externalDocs", "example",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
})  # fmt: skip


class _Place(NamedTuple):
    """Where a schema stands: its level for messages, and whether defaults are allowed."""

    level: str = "object fields"
    no_defaults: str = ""
    inside_meta: bool = False


def schema_causes(schema: Tree, path: str, *, status: bool) -> list[Cause]:
    """Return everything that makes a schema unusable; `status`: it has a status subresource."""
    causes: list[Cause] = []
    if status:
        strange = sorted(key for key in schema if key not in _AT_ROOT_WITH_STATUS and schema[key])
        if strange:
            message = f"{', '.join(strange)} is not allowed at the root of a schema with status"
            causes.append(invalid_value(path, "", message))
    if schema.get("nullable"):
        causes.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    causes += _structural(schema, path, "root")
    causes += _openapi(schema, path, _Place(), root=True)
    return causes


def _children(schema: Tree, path: str) -> Iterator[tuple[str, Tree, str]]:
    for name, child in (schema.get("properties") or {}).items():
        yield name, child, f"{path}.properties[{name}]"


def _structural(schema: Tree, path: str, level: str) -> list[Cause]:
    causes: list[Cause] = []
    for _, child, where in _children(schema, path):
        causes += _structural(child, where, "specified object fields")
    items = schema.get("items")
    if isinstance(items, Mapping):
        causes += _structural(items, f"{path}.items", "specified array items")
    if schema.get("type") == "array" and items is None:
        causes.append(required(f"{path}.items", "must be specified"))
    extra = schema.get("additionalProperties")
    if extra is not None and level == "root":
        causes.append(
            forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        )
    if isinstance(extra, Mapping):
        causes += _structural(extra, f"{path}.additionalProperties", "specified object fields")
    causes += _types(schema, path, level)
    causes += _meta(schema, path, level)
    causes += _narrowing(schema, schema if level == "root" else None, path, path)
    return causes


def _types(schema: Tree, path: str, level: str) -> list[Cause]:
    causes: list[Cause] = []
    named = schema.get("type") or ""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    if int_or_string and preserve:
        causes.append(
            invalid_value(
                f"{path}.x-kubernetes-preserve-unknown-fields",
                True,
                "must be false if x-kubernetes-int-or-string is true",
            )
        )
    if int_or_string and embedded:
        causes.append(
            invalid_value(
                f"{path}.x-kubernetes-embedded-resource",
                True,
                "must be false if x-kubernetes-int-or-string is true",
            )
        )
    if embedded and named != "object":
        message = "must be object if x-kubernetes-embedded-resource is true"
        causes.append(
            invalid_value(f"{path}.type", named, message)
            if named
            else required(f"{path}.type", message)
        )
    elif not named and not int_or_string and not preserve:
        where = "at the root" if level == "root" else f"for {level}"
        causes.append(required(f"{path}.type", f"must not be empty {where}"))
    if embedded and schema.get("additionalProperties") is not None:
        causes.append(
            forbidden_field(
                f"{path}.additionalProperties", "must not be used in an embedded resource"
            )
        )
    if embedded and not preserve and not schema.get("properties"):
        causes.append(
            required(
                f"{path}.properties",
                "must not be empty in an embedded resource that does not preserve unknown fields",
            )
        )
    if level == "root" and named and named != "object":
        causes.append(invalid_value(f"{path}.type", named, "must be object at the root"))
    return causes


def _meta(schema: Tree, path: str, level: str) -> list[Cause]:
    causes: list[Cause] = []
    props = schema.get("properties") or {}
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        causes += [
            invalid_value(f"{path}.properties[{name}].type", named, f"must be {wanted}")
            for name, wanted in (
                ("kind", "string"),
                ("apiVersion", "string"),
                ("metadata", "object"),
            )
            if name in props and (named := props[name].get("type", "")) != wanted
        ]
    if level == "root" and "metadata" in props:
        meta = props["metadata"]
        strange = (meta.get("properties") or {}).keys() - {"name", "generateName"}
        others = meta.keys() - {"type", "properties", "default", "description", "title"}
        if strange or others:
            causes.append(
                forbidden_field(
                    f"{path}.properties[metadata]",
                    "must not specify anything other than name and generateName",
                )
            )
    return causes


def _narrowing(schema: Tree, around: Tree | None, path: str, outside: str) -> list[Cause]:
    """Check the narrowing parts of a schema.

    At the root (and only there, on a real server too) `around` is the structure that must have
    whatever the parts name.
    """
    causes: list[Cause] = []
    if schema.get("pattern"):
        try:
            compile_re2(schema["pattern"])
        except BadPattern as error:
            message = f"must be a valid regular expression, but isn't: {error}"
            causes.append(invalid_value(f"{path}.pattern", schema["pattern"], message))
    typed = bool(schema.get("x-kubernetes-int-or-string"))
    for key in _NARROWING:
        parts = schema.get(key) or ()
        if typed and key == "anyOf" and parts == _INT_OR_STRING:
            continue
        for index, part in enumerate(parts):
            where = f"{path}.{key}[{index}]"
            pattern = typed and key == "allOf" and index == 0
            skip = pattern and part.get("anyOf") == _INT_OR_STRING
            causes += _nested(part, around, where, outside, skip_any=skip)
    if schema.get("not") is not None:
        causes += _nested(schema["not"], around, f"{path}.not", outside)
    return causes


def _nested(
    part: Tree, around: Tree | None, path: str, outside: str, *, skip_any: bool = False
) -> list[Cause]:
    """Check one part. `around`: see `_narrowing`."""
    causes = [
        forbidden_field(f"{path}.{key}", "must be undefined to be structural")
        for key in _ONLY_OUTSIDE
        if part.get(key)
    ]
    inner = {key: value for key, value in part.items() if not (skip_any and key == "anyOf")}
    causes += _narrowing(inner, around, path, outside)
    inside: list[tuple[Tree, str, str]] = []
    if part.get("items") is not None:
        inside.append((part["items"], "items", "items"))
    for name, child, _ in _children(part, path):
        key = f"properties[{name}]"
        if name == "metadata":
            message = "must not be specified in a nested context"
            causes.append(forbidden_field(f"{path}.{key}", message))
        inside.append((child, key, name))
    for child, key, name in inside:
        below: Tree | None = None
        if around is not None:
            below = (
                around.get("items") if key == "items" else around.get("properties", {}).get(name)
            )
            if below is None:
                message = f"because it is defined in {path}.{key}"
                causes.append(required(f"{outside}.{key}", message))
        causes += _nested(child, below, f"{path}.{key}", f"{outside}.{key}")
    return causes


def _openapi(schema: Tree, path: str, place: _Place, *, root: bool = False) -> list[Cause]:
    causes: list[Cause] = []
    named = schema.get("type") or ""
    if named and named not in _TYPES:
        causes.append(unsupported_value(f"{path}.type", named, _TYPES))
    if named == "null":
        message = "type cannot be set to null, use nullable as an alternative"
        causes.append(forbidden_field(f"{path}.type", message))
    if schema.get("default") is not None and place.no_defaults:
        causes.append(forbidden_field(f"{path}.default", f"must not be set {place.no_defaults}"))
    causes += [
        forbidden_field(f"{path}.{key}", f"{key} is not supported")
        for key in _NEVER
        if schema.get(key)
    ]
    if isinstance(schema.get("items"), list):
        causes.append(
            forbidden_field(f"{path}.items", "items must be a schema object and not an array")
        )
    if schema.get("uniqueItems"):
        causes.append(
            forbidden_field(
                f"{path}.uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )
        )
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        causes.append(
            forbidden_field(
                f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"
            )
        )
    extra = schema.get("additionalProperties")
    if extra is not None and extra is not True and schema.get("properties"):
        causes.append(
            forbidden_field(
                f"{path}.additionalProperties",
                "additionalProperties and properties are mutual exclusive",
            )
        )
    if isinstance(extra, Mapping):
        inner = place
        if place.inside_meta:
            inner = place._replace(no_defaults="inside additionalProperties of object metadata")
        causes += _openapi(extra, f"{path}.additionalProperties", inner)
    for name, child, where in _children(schema, path):
        below = place
        if name in _META and (root or schema.get("x-kubernetes-embedded-resource")):
            below = place._replace(inside_meta=True)
            if root:
                below = below._replace(no_defaults=f"in top-level {name}")
        causes += _openapi(child, where, below)
    for key in _NARROWING:
        for index, part in enumerate(schema.get(key) or ()):
            causes += _openapi(part, f"{path}.{key}[{index}]", place)
    if schema.get("not") is not None:
        causes += _openapi(schema["not"], f"{path}.not", place)
    if isinstance(schema.get("items"), Mapping):
        causes += _openapi(schema["items"], f"{path}.items", place)
    return causes + list_causes(schema, path)
