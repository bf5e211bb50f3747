"""What a CustomResourceDefinition must be to be accepted.

CRD (pruned, defaulted) ──► crd_causes(new, old) ──► causes

The checks are the real server's, with its paths: what stands in the only version is reported where
the server's internal form has it (`spec.validation`, `spec.subresources`). What Kubernetes allows
and the embedded server does not have (webhook conversion, several served versions) is refused here,
by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from boilerhouse.embedded.apiserver.cel.paths import walk
from boilerhouse.embedded.apiserver.cel.rules import Rules, RulesRefused
from boilerhouse.embedded.apiserver.crd.compiled import judged
from boilerhouse.embedded.apiserver.crd.limits import limit_causes
from boilerhouse.embedded.apiserver.crd.structural import schema_causes
from boilerhouse.embedded.apiserver.schemas.node import Builder, Node, SchemaError
from boilerhouse.embedded.apiserver.schemas.schema import Schema
from boilerhouse.embedded.fields.patch import copied
from boilerhouse.platform.kube.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    too_many,
    unsupported_value,
)

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_RULE = "must be lower case letters, digits and '-', starting with a letter, at most 63 long"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_MAX_SELECTABLE = 8


def crd_causes(body: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Cause]:
    """Return everything that is wrong with a CRD, or with the change from `old` to it."""
    spec = body.get("spec") or {}
    names = spec.get("names") or {}
    causes: list[Cause] = []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if body["metadata"].get("name") != wanted:
        message = f'must be spec.names.plural+"."+spec.group: {wanted}'
        causes.append(invalid_value("metadata.name", body["metadata"].get("name", ""), message))
    causes += _group(spec) + _scope(spec) + _names(names)
    causes += _versions(spec) + _conversion(spec)
    causes += _stored(spec, (body.get("status") or {}).get("storedVersions") or [])
    if spec.get("preserveUnknownFields"):
        causes.append(invalid_value("spec.preserveUnknownFields", True, "must be false"))
    if old is not None:
        causes += _immutable(spec, old.get("spec") or {})
    return causes


def _group(spec: Mapping[str, Any]) -> list[Cause]:
    group = spec.get("group") or ""
    if not group:
        return [required("spec.group")]
    if len(group) > 253 or not _SUBDOMAIN.fullmatch(group):
        return [invalid_value("spec.group", group, "must be a DNS subdomain")]
    if "." not in group:
        message = "should be a domain with at least one dot"
        return [invalid_value("spec.group", group, message)]
    return []


def _scope(spec: Mapping[str, Any]) -> list[Cause]:
    scope = spec.get("scope") or ""
    if not scope:
        return [required("spec.scope")]
    if scope not in ("Cluster", "Namespaced"):
        return [unsupported_value("spec.scope", scope, ("Cluster", "Namespaced"))]
    return []


def _is_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def _names(names: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("plural", "singular", "kind", "listKind"):
        value = names.get(key) or ""
        where = f"spec.names.{key}"
        if not value:
            causes.append(required(where))
        elif not _is_label(value.lower() if "ind" in key else value):
            causes.append(invalid_value(where, value, _LABEL_RULE))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        message = "kind and listKind may not be the same"
        causes.append(invalid_value("spec.names.listKind", names["kind"], message))
    for key in ("shortNames", "categories"):
        for index, value in enumerate(names.get(key) or ()):
            if not _is_label(value):
                causes.append(invalid_value(f"spec.names.{key}[{index}]", value, _LABEL_RULE))
    return causes


def _versions(spec: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    versions = spec.get("versions") or []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        name = version.get("name") or ""
        path = f"spec.versions[{index}]"
        if not _is_label(name):
            causes.append(invalid_value(f"{path}.name", name, _LABEL_RULE))
            if index == 0:  # the first is also the version of old clients, and reported as such
                causes.append(invalid_value("spec.version", name, _LABEL_RULE))
        if name in seen:
            causes.append(invalid_value("spec.versions", name, "must contain unique version names"))
        seen.add(name)
        causes += _version(version, path, hoisted=len(versions) == 1)
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        message = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", len(stored), message))
    elif not stored[0].get("served") or sum(bool(v.get("served")) for v in versions) > 1:
        message = (
            "the storage version, and no other, must be served: conversion is not supported here"
        )
        causes.append(forbidden_field("spec.versions", message))
    return causes


def _stored(spec: Mapping[str, Any], stored: list[str]) -> list[Cause]:
    """Check that every version objects may be stored in is still there."""
    where = "status.storedVersions"
    if not stored:
        return [invalid_value(where, stored, "must have at least one stored version")]
    versions = spec.get("versions") or []
    causes = [
        invalid_value(where, stored, f"must have the storage version {version.get('name')}")
        for version in versions
        if version.get("storage") and version.get("name") not in stored
    ]
    known = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in known:
            message = "missing from spec.versions, though objects may be stored in it"
            causes.append(invalid_value(f"{where}[{index}]", name, message))
    return causes


def _version(version: Mapping[str, Any], path: str, *, hoisted: bool) -> list[Cause]:
    around = "spec" if hoisted else path
    schema_at = "spec.validation" if hoisted else f"{path}.schema"
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    causes = _deprecation(version, path)
    node = None
    if schema is None:
        causes.append(required(f"{path}.schema.openAPIV3Schema"))
    else:
        where = f"{schema_at}.openAPIV3Schema"
        node, wrong = judged(_judge, schema, where, "status" in subresources)
        causes += wrong
    causes += _scale(subresources.get("scale"), f"{around}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _column(column, f"{around}.additionalPrinterColumns[{index}]")
    fields = version.get("selectableFields") or ()
    if node is not None:
        causes += _selectable(fields, node, f"{around}.selectableFields")
    return causes


def _judge(schema: Mapping[str, Any], path: str, status: bool) -> tuple[Node | None, list[Cause]]:
    wrong = limit_causes(schema, path) or schema_causes(schema, path, status=status)
    return (None, wrong) if wrong else _usable(schema, path)


def _usable(schema: Mapping[str, Any], path: str) -> tuple[Node | None, list[Cause]]:
    """Compile schema and rules, and hold every default against them."""
    try:
        node = Builder().tree(schema)
    except SchemaError as error:
        return None, [invalid_value(f"{path}{error.path}", "", error.message)]
    causes = _defaults(node, schema, path)
    if causes:
        return node, causes
    try:
        Rules.compile(schema, path=path)
    except RulesRefused as error:
        return node, error.causes
    return node, []


def _defaults(node: Node, schema: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    if schema.get("default") is not None:
        causes += _default(schema, f"{path}.default")
    for name, child in (schema.get("properties") or {}).items():
        causes += _defaults(node.props[name], child, f"{path}.properties[{name}]")
    if node.items is not None:
        causes += _defaults(node.items, schema["items"], f"{path}.items")
    return causes


def _default(schema: Mapping[str, Any], path: str) -> list[Cause]:
    # Wrapped into an object, so that a default of any type goes through the same passes.
    inner = {key: value for key, value in schema.items() if key != "default"}
    whole = {"type": "object", "properties": {"default": inner}}
    body = {"default": copied(schema["default"])}
    checked = Schema.compile(whole)
    if checked.prune(body):
        return [invalid_value(path, schema["default"], "must not have unknown fields")]
    causes = checked.validate(body)
    if not causes:
        try:
            causes = Rules.compile(whole).check(body)
        except RulesRefused:
            return []  # the rules themselves are reported at their own place
    prefix = path.removesuffix("default")
    return [cause._replace(field=prefix + cause.field) for cause in causes]


def _deprecation(version: Mapping[str, Any], path: str) -> list[Cause]:
    warning = version.get("deprecationWarning")
    where = f"{path}.deprecationWarning"
    if warning is None:
        return []
    causes = []
    if not version.get("deprecated"):
        causes.append(invalid_value(where, warning, "can only be set for deprecated versions"))
    if not 0 < len(warning.encode()) <= 256 or not warning.isprintable():
        causes.append(invalid_value(where, warning, "must be 1 to 256 printable characters"))
    return causes


def _simple_path(path: str, where: str) -> list[Cause]:
    if not path.startswith("."):
        return [invalid_value(where, path, "must be a simple json path starting with .")]
    return []


def _scale(scale: Mapping[str, Any] | None, path: str) -> list[Cause]:
    if scale is None:
        return []
    causes: list[Cause] = []
    for key, prefixes in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value, where = scale.get(key) or "", f"{path}.{key}"
        if not value:
            if key != "labelSelectorPath":
                causes.append(required(where))
        elif wrong := _simple_path(value, where):
            causes += wrong
        elif not value.startswith(prefixes):
            message = f"should be a json path under {' or '.join(p[:-1] for p in prefixes)}"
            causes.append(invalid_value(where, value, message))
    return causes


def _column(column: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not column.get("name"):
        causes.append(required(f"{path}.name"))
    kind = column.get("type") or ""
    if not kind:
        causes.append(required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}"))
    elif kind not in _COLUMN_TYPES:
        message = f"must be one of {','.join(_COLUMN_TYPES)}"
        causes.append(invalid_value(f"{path}.type", kind, message))
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        message = f"must be one of {','.join(_COLUMN_FORMATS)}"
        causes.append(invalid_value(f"{path}.format", column["format"], message))
    where = f"{path}.JSONPath"
    json_path = column.get("jsonPath") or ""
    causes += _simple_path(json_path, where) if json_path else [required(where)]
    return causes


def _selectable(fields: Any, node: Node, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            causes.append(required(where))
            continue
        try:
            shown, found = walk(json_path, node, brackets=False)
        except ValueError as error:
            causes.append(invalid_value(where, json_path, f"is an invalid path: {error}"))
            continue
        if shown.split(".")[0] == "metadata":
            message = "must not point to fields in metadata"
            causes.append(invalid_value(where, json_path, message))
        if found.type_names not in ("string", "boolean", "integer"):
            message = "must point to a field of type string, boolean or integer"
            causes.append(invalid_value(where, json_path, message))
        if shown in seen:
            causes.append(duplicate(where, json_path))
        seen.add(shown)
    if len(seen) > _MAX_SELECTABLE:
        causes.append(too_many(path, len(seen), _MAX_SELECTABLE))
    return causes


def _conversion(spec: Mapping[str, Any]) -> list[Cause]:
    conversion = spec.get("conversion") or {}
    strategy = conversion.get("strategy") or "None"
    if strategy == "Webhook":
        message = "conversion by webhook is not supported here"
        return [forbidden_field("spec.conversion.strategy", message)]
    if strategy != "None":
        return [unsupported_value("spec.conversion.strategy", strategy, ("None", "Webhook"))]
    if conversion.get("webhook"):
        message = "should not be set when strategy is not set to Webhook"
        return [forbidden_field("spec.conversion.webhookClientConfig", message)]
    return []


def _immutable(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    pairs = [("spec.scope", spec.get("scope"), old.get("scope"))]
    pairs.append(("spec.group", spec.get("group"), old.get("group")))
    for key in ("kind", "plural"):
        new_name, old_name = (side.get("names", {}).get(key) for side in (spec, old))
        pairs.append((f"spec.names.{key}", new_name, old_name))
    return [
        invalid_value(field, new, "field is immutable")
        for field, new, before in pairs
        if new != before
    ]
