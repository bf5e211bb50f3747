"""Structs as structural OpenAPI v3 schemas: the only schema dialect a CRD may speak.

    Struct ─► msgspec.inspect ─► structural schema ─► crd.py

Structural means: one type per node, no $ref, no unions, no titles, no boolean
additionalProperties. What a type cannot say is attached to it with the annotations below, and
rules over several fields come from the Struct's RULES.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, inspect

from boilerhouse.core.patterns import re2
from boilerhouse.core.rules import rules_of

Schema = dict[str, Any]


class Unstructural(TypeError):
    """A Struct says something that no structural schema can express."""


# Lists whose items, or whose items' key fields, are unique. The API server refuses duplicates.
UNIQUE = Meta(extra_json_schema={"x-kubernetes-list-type": "set"})


def keyed_by(*fields: str) -> Meta:
    return Meta(
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(fields),
        }
    )


# An object whose fields are somebody else's business: kept as they are.
FreeForm = Annotated[
    dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})
]

Int32 = Annotated[int, Meta(extra_json_schema={"format": "int32"})]
Int64 = Annotated[int, Meta(extra_json_schema={"format": "int64"})]


def doc(text: str) -> Meta:
    """Describe a field to `kubectl explain`."""
    return Meta(description=text)


def structural(struct: type[msgspec.Struct]) -> Schema:
    """Return the structural schema of a Struct."""
    return _node(inspect.type_info(struct))


def _node(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.Metadata():
            merged = {**_node(kind.type), **(kind.extra_json_schema or {})}
            # What people read first comes first.
            return {key: merged[key] for key in ("type", "description") if key in merged} | merged
        case inspect.UnionType():
            # `X | None` is an optional X: a null on the wire means the same as absence.
            arms = [arm for arm in kind.types if not isinstance(arm, inspect.NoneType)]
            if len(arms) == 1:
                return _node(arms[0])
        case inspect.StructType():
            return _object(kind)
        case inspect.VarTupleType():
            bounds = _given(minItems=kind.min_length, maxItems=kind.max_length)
            return {"type": "array", "items": _node(kind.item_type), **bounds}
        case inspect.DictType(key_type=inspect.StrType()):
            bounds = _given(minProperties=kind.min_length, maxProperties=kind.max_length)
            if not isinstance(kind.value_type, inspect.AnyType):
                bounds["additionalProperties"] = _node(kind.value_type)
            return {"type": "object", **bounds}
        case inspect.StrType():
            pattern = None if kind.pattern is None else re2(kind.pattern)
            bounds = _given(minLength=kind.min_length, maxLength=kind.max_length, pattern=pattern)
            return {"type": "string", **bounds}
        case inspect.EnumType():
            return {"type": "string", "enum": [member.value for member in kind.cls]}
        case inspect.IntType(gt=None, lt=None, multiple_of=None):
            return {"type": "integer", **_given(minimum=kind.ge, maximum=kind.le)}
        case inspect.FloatType(gt=None, lt=None, multiple_of=None):
            bounds = _given(minimum=kind.ge, maximum=kind.le)
            return {"type": "number", **bounds, **_for_integers(kind.ge, kind.le)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
    raise Unstructural(f"no structural schema for {kind}")


def _object(kind: inspect.StructType) -> Schema:
    properties = {field.encode_name: _property(field) for field in kind.fields}
    schema: Schema = {"type": "object"}
    if kind.cls.__doc__:
        schema["description"] = " ".join(kind.cls.__doc__.split())
    required = sorted(field.encode_name for field in kind.fields if field.required)
    if required:
        schema["required"] = required
    schema["properties"] = properties
    if rules := rules_of(kind.cls):
        schema["x-kubernetes-validations"] = [rule.validation() for rule in rules]
    return schema


def _property(field: inspect.Field) -> Schema:
    schema = _node(field.type)
    # What is absent already means zero, empty or false: no need to write that into every object.
    if field.default is msgspec.NODEFAULT or not field.default:
        return schema
    # A Struct becomes {}, which the defaults of its own fields then fill in.
    return {**schema, "default": msgspec.to_builtins(field.default)}


def _for_integers(least: float | None, most: float | None) -> Schema:
    """State bounds with a fraction once more, as rules.

    An API server cuts the fraction off a bound when the value is written as an integer: with a
    minimum of 0.01 it takes 0, though not 0.0.
    """
    rules = []
    if least is not None and least % 1:
        rules.append({"rule": f"self >= {least}", "message": f"must be at least {least}"})
    if most is not None and most % 1:
        rules.append({"rule": f"self <= {most}", "message": f"must be at most {most}"})
    return {"x-kubernetes-validations": rules} if rules else {}


def _given(**keywords: object) -> Schema:
    return {name: value for name, value in keywords.items() if value is not None}
