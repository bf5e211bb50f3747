"""Layers of a Pod template become one, by the table. Pure.

template ─► split() ─► Layer ─┐
template ─► split() ─► Layer ─┴─► over() ─► under(operator's) ─► Layer

`over` is associative: any number of layers can be put together in any grouping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from boilerhouse.engines.template.table import BY_FIELD, Merge, Place, Row, Shape

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """A template taken apart: the server's container is one thing, the others are another."""

    metadata: Body = field(default_factory=dict)
    pod: Body = field(default_factory=dict)
    server: Body = field(default_factory=dict)
    others: tuple[Body, ...] = ()

    def at(self, place: Place) -> Body:
        """Return the fields of one place."""
        return {Place.METADATA: self.metadata, Place.POD: self.pod, Place.SERVER: self.server}[
            place
        ]


def split(template: Mapping[str, Any], container: str) -> Layer:
    """Take a template apart that the rules have nothing against; `container`: the server's."""
    spec = dict(template.get("spec") or {})
    containers = spec.pop("containers", None) or []
    servers = [one for one in containers if one.get("name") == container]
    server = dict(servers[0]) if servers else {}
    server.pop("name", None)
    others = tuple(one for one in containers if one.get("name") != container)
    return Layer(dict(template.get("metadata") or {}), spec, server, others)


def over(lower: Layer, upper: Layer) -> Layer:
    """Lay one layer over another."""
    return Layer(
        _merged(Place.METADATA, lower, upper, fill=False),
        _merged(Place.POD, lower, upper, fill=False),
        _merged(Place.SERVER, lower, upper, fill=False),
        lower.others + upper.others,
    )


def under(operator: Layer, users: Layer) -> Layer:
    """Lay what users say over the operator's layer, which also fills up what they left open."""
    return Layer(
        _merged(Place.METADATA, operator, users, fill=True),
        _merged(Place.POD, operator, users, fill=True),
        _merged(Place.SERVER, operator, users, fill=True),
        operator.others + users.others,
    )


def is_set(row: Row, value: Any) -> bool:
    """Whether a layer says something about a field."""
    if row.shape == Shape.RESOURCES:
        return bool(value) and any(value.get(key) for key in ("requests", "limits", "claims"))
    return value is not None and value != ""


def _merged(place: Place, lower: Layer, upper: Layer, *, fill: bool) -> Body:
    below, above = lower.at(place), upper.at(place)
    result: Body = {}
    for name, row in BY_FIELD[place].items():
        said = [layer[name] for layer in (below, above) if is_set(row, layer.get(name))]
        if said:
            result[name] = _value(row.merge, said, fill=fill)
    return result


def _value(merge: Merge, said: list[Any], *, fill: bool) -> Any:
    """Put one or two values of a field together, the lower one first."""
    if merge == Merge.MAP or (merge == Merge.FILL and fill):
        return {key: value for layer in said for key, value in layer.items()}
    if merge == Merge.CONCAT:
        return [item for layer in said for item in layer]
    return said[-1]
