"""The server's configuration: the operator's, under the class's, under the engine's. Pure.

custom (class, engine) ─► merged() ─► stripped() ─► hash, and onto the operator's base

What the operator owns is left out of what users write, and listed, so that they are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Body = dict[str, Any]


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Body:
    """Merge deeply: objects key by key, everything else is replaced."""
    result: Body = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def stripped(custom: Mapping[str, Any], owned: Iterable[str]) -> tuple[Body, tuple[str, ...]]:
    """Leave out what the operator owns; return the rest and the paths that were left out.

    A section that holds something owned must stay an object, so any other value of it is left out.
    A section that becomes empty leaves no trace.
    """
    rest: Body = dict(custom)
    gone: list[str] = []
    for path in owned:
        rest = _without(rest, path.split("."), [], gone)
    return rest, tuple(dict.fromkeys(gone))


def _without(body: Mapping[str, Any], keys: list[str], way: list[str], gone: list[str]) -> Body:
    key, *deeper = keys
    rest = dict(body)
    if key not in rest:
        return rest
    here = [*way, key]
    if deeper and isinstance(rest[key], Mapping):
        inner = _without(rest[key], deeper, here, gone)
        if inner:
            return {**rest, key: inner}
    else:
        gone.append(".".join(here))
    del rest[key]
    return rest


def replaced(base: Any, values: Mapping[str, Any]) -> Any:
    """Put values into the places that name them; a place is a text that is exactly the name."""
    if isinstance(base, Mapping):
        return {key: replaced(value, values) for key, value in base.items()}
    if isinstance(base, list):
        return [replaced(value, values) for value in base]
    return values.get(base, base) if isinstance(base, str) else base
