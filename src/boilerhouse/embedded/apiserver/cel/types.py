"""The types of CEL, and which of them each place in a schema has.

schemas/node.Node ──► type_of ──► Type ──► compile.py

A value that comes from an object is JSON and stays so until a leaf is read: `Type.convert` then
makes a number a float, a `date-time` a Timestamp. Containers that a rule builds itself (`node` is
None) hold finished values.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from boilerhouse.embedded.apiserver.cel.syntax import RESERVED
from boilerhouse.embedded.apiserver.cel.values import (
    CelError,
    Duration,
    Timestamp,
    parse_timestamp,
)
from boilerhouse.embedded.apiserver.schemas.formats import parse_duration
from boilerhouse.embedded.apiserver.schemas.node import Node

# The variables of one evaluation, and what evaluates an expression in them.
Env = dict[str, Any]
Run = Callable[[Env], Any]
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[./-]")
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """One type. `fields` maps the names a rule uses to the real names and their types."""

    kind: str
    element: Type | None = None
    key: Type | None = None
    node: Node | None = None
    fields: dict[str, tuple[str, Type]] | None = None
    convert: Callable[[Any], Any] | None = None

    def __str__(self) -> str:
        if self.kind == "map":
            return f"map({self.key}, {self.element})"
        return f"{self.kind}({self.element})" if self.element else self.kind


class CelTypeError(ValueError):
    """The rule is CEL but does not fit the schema, or calls what is not there."""


class Compiled(NamedTuple):
    """A checked expression. `run` gives a finished value, or JSON where `type.node` is set."""

    type: Type
    run: Run


def no_overload(name: str, *types: Type) -> CelTypeError:
    shown = ", ".join(str(each) for each in types)
    return CelTypeError(f"found no matching overload for '{name}' applied to '({shown})'")


DYN: Final = Type("dyn")
INT: Final = Type("int")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BOOL: Final = Type("bool")
BYTES: Final = Type("bytes")
TIMESTAMP: Final = Type("timestamp")
DURATION: Final = Type("duration")
NULL: Final = Type("null")
TYPE: Final = Type("type")
# Which class a finished value of a kind has.
CLASSES: Final[dict[str, type]] = {
    "int": int, "double": float, "string": str, "bool": bool, "bytes": bytes,
    "timestamp": Timestamp, "duration": Duration, "null": type(None), "list": list, "map": dict,
}  # fmt: skip
_NULLABLE: Final = frozenset({"object", "timestamp", "duration", "map", "list"})


def list_of(element: Type) -> Type:
    return Type("list", element=element)


def optional_of(element: Type) -> Type:
    return Type("optional", element=element)


def agree(a: Type, b: Type) -> bool:
    """Tell whether a value of one type may stand where the other is expected."""
    if a.kind == "dyn" or b.kind == "dyn":
        return True
    if a.kind != b.kind:
        other = b if a.kind == "null" else a if b.kind == "null" else None
        return other is not None and other.kind in _NULLABLE
    if a.kind == "object":
        return a.node is b.node
    pairs = ((a.element, b.element), (a.key, b.key))
    return all(x is None or y is None or agree(x, y) for x, y in pairs)


def escape(name: str) -> str | None:
    """Return how a rule spells a property's name, or None when it cannot be spelled."""
    if not _ESCAPABLE.fullmatch(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def type_of(node: Node, *, root: bool = False) -> Type | None:
    """Return the type of a place in a schema, or None when rules cannot see it."""
    if node.int_or_string:
        return DYN
    named = node.type_names
    if named == "array":
        items = None if node.items is None else type_of(node.items, root=node.items.embedded)
        return None if items is None else Type("list", element=items, node=node)
    if named == "object":
        return _object(node, root=root)
    if named == "string":
        return _STRINGS.get(node.openapi.get("format") or "", STRING)
    return {"boolean": BOOL, "number": _DOUBLE, "integer": INT}.get(named)


def _object(node: Node, *, root: bool) -> Type | None:
    if node.additional is not None:
        value = type_of(node.additional, root=node.additional.embedded)
        return None if value is None else Type("map", element=value, key=STRING, node=node)
    fields: dict[str, tuple[str, Type]] = {}
    for name, child in node.props.items():
        spelled, typed = escape(name), type_of(child, root=child.embedded)
        if spelled is not None and typed is not None:
            fields[spelled] = (name, typed)
    if root:
        fields |= _META
    return Type("object", node=node, fields=fields)


def _to_float(value: Any) -> float:
    return float(value)


def _to_bytes(value: Any) -> bytes:
    try:
        return base64.urlsafe_b64decode(value)
    except (binascii.Error, ValueError) as error:
        raise CelError(f"invalid byte formatted string {value}: {error}") from error


def _to_duration(value: Any) -> Duration:
    parsed = parse_duration(value)
    if parsed is None:
        raise CelError(f"invalid duration {value}")
    return Duration(parsed)


def _to_day(value: Any) -> Timestamp:
    return parse_timestamp(f"{value}T00:00:00Z")


_DOUBLE: Final = Type("double", convert=_to_float)
_STRINGS: Final = {
    "byte": Type("bytes", convert=_to_bytes),
    "duration": Type("duration", convert=_to_duration),
    "date": Type("timestamp", convert=_to_day),
    "date-time": Type("timestamp", convert=parse_timestamp),
}
_META: Final = {
    "apiVersion": ("apiVersion", STRING),
    "kind": ("kind", STRING),
    "metadata": (
        "metadata",
        Type(
            "object",
            fields={"name": ("name", STRING), "generateName": ("generateName", STRING)},
        ),
    ),
}
