"""Reading what a rule names: fields of objects, entries of maps, items of lists.

compile.py, macros.py ──► presence, reader, item_of
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boilerhouse.embedded.apiserver.cel.syntax import RESERVED
from boilerhouse.embedded.apiserver.cel.types import DYN, CelTypeError, Type
from boilerhouse.embedded.apiserver.cel.values import CelError


def presence(holder: Type, field: str) -> Callable[[Any], bool]:
    """Return the test behind `has(x.field)`."""
    if holder.kind == "object":
        name, _ = _field(holder, field)
        # A nullable field that is null counts as absent.
        return lambda value: value.get(name) is not None
    if holder.kind in ("map", "dyn"):
        return lambda value: value.__class__ is dict and field in value
    raise CelTypeError(f"type '{holder}' does not support field selection")


def _field(holder: Type, field: str) -> tuple[str, Type]:
    fields = holder.fields or {}
    found = fields.get(field) or (fields.get(f"__{field}__") if field in RESERVED else None)
    if found is None:
        raise CelTypeError(f"undefined field '{field}'")
    return found


def reader(holder: Type, field: str) -> tuple[Callable[[Any], Any], Type]:
    if holder.kind == "object":
        name, found = _field(holder, field)
    elif holder.kind == "map":
        name, found = field, holder.element or DYN
    elif holder.kind == "dyn":
        name, found = field, DYN
    else:
        raise CelTypeError(f"type '{holder}' does not support field selection")
    convert, missing = found.convert, holder.kind == "object"

    def read(value: Any) -> Any:
        if value.__class__ is not dict:
            raise CelError("no such overload")
        item = value.get(name)
        if item is None and (missing or name not in value):
            raise CelError(f"no such key: {name}")
        return item if convert is None or item is None else convert(item)

    return read, found


def item_of(value: Any, key: Any) -> Any:
    if value.__class__ is list:
        if key.__class__ is not int:
            raise CelError(f"unsupported index: {key}")
        if not 0 <= key < len(value):
            raise CelError(f"index out of bounds: {key}")
        return value[key]
    if value.__class__ is dict:
        if key not in value:
            raise CelError(f"no such key: {key}")
        return value[key]
    raise CelError("no such overload")
