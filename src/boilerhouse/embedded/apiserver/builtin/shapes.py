"""What a built-in object looks like after a real server has decoded it and written it down again.

body as sent ─► Shape.settle() ─► body as stored, before defaulting

A real server decodes built-in kinds into Go structs and encodes those. On the way empty values
vanish or appear, field by field (`empties` in trees.json says which): `labels: {}` and
`hostNetwork: false` vanish, `replicas: 0` stays, `resources` appears as `{}`; quantities and times
take their canonical spelling. Clients compare what they read with what they wrote, so this matters.

The walk stops at a value of the wrong type, as decoding does: everything after it, defaulting code
for one, may rely on types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from boilerhouse.core.clock import parse_time, rfc3339, rfc3339_micro
from boilerhouse.embedded.apiserver.schemas.node import MISSING, NOTHING
from boilerhouse.embedded.fields.quantity import BadQuantity, spelled, spelled_resource

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False, "number": 0}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
}
# Fields of a schema that take another schema, or something else.
_OR: dict[str, type] = {"PropsOrArray": list, "PropsOrBool": bool, "PropsOrStringArray": list}
_SIX_DECIMALS = re.compile(r"\.[0-9]{6}(Z|z|[+-][0-9]{2}:[0-9]{2})\Z")


class Unlike(Exception):
    """A value is not what its field takes. The path is put together on the way out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []

    def within(self, step: str) -> Unlike:
        self.path.insert(0, step)
        return self

    def __str__(self) -> str:
        return f"{''.join(self.path).removeprefix('.')}: {self.problem}"


def _unlike(value: Any, wanted: str) -> Unlike:
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return Unlike(f"json: cannot unmarshal {names.get(type(value), 'number')} into {wanted}")


# Takes a value that is not null, and what is stored in its place; returns what it becomes; raises
# Unlike. What is stored has been settled.
Settle = Callable[[Any, Any], Any]


class Shape:
    """The fields of one definition."""

    __slots__ = ("_always", "_drops", "_fields", "_scalars")

    def __init__(self) -> None:
        self._fields: dict[str, Settle] = {}
        # Fields that take one class of value, which stays as it is unless it is empty.
        self._scalars: dict[str, type] = {}
        # Fields whose empty value vanishes.
        self._drops: frozenset[str] = frozenset()
        # Fields that appear when nobody sent them, with how to make their empty value.
        self._always: dict[str, Callable[[], Any]] = {}

    def fill(
        self,
        fields: dict[str, Settle],
        scalars: dict[str, type],
        drops: frozenset[str],
        always: dict[str, Callable[[], Any]],
    ) -> None:
        self._fields, self._scalars, self._drops, self._always = fields, scalars, drops, always

    def settle(self, value: Any, seen: Any = NOTHING) -> Any:
        """Settle an object in place, but for what has been `seen`, and return it."""
        if value.__class__ is not dict:
            raise _unlike(value, "an object")
        if seen.__class__ is not dict:
            seen = NOTHING
        fields, scalars, drops = self._fields, self._scalars, self._drops
        gone: list[str] = []
        for key, item in value.items():
            if item and item.__class__ is scalars.get(key):
                continue
            settle = fields.get(key)
            was = seen.get(key, MISSING)
            if settle is None or item is was:
                continue
            if item is None:
                gone.append(key)
                continue
            try:
                settled = settle(item, was)
            except Unlike as problem:
                raise problem.within(f".{key}") from None
            if not settled and key in drops:
                gone.append(key)
            elif settled is not item:
                value[key] = settled
        for key in gone:
            del value[key]
        if not self._always.keys() <= value.keys():
            value |= {key: empty() for key, empty in self._always.items() if key not in value}
        return value


class Shapes:
    """Compiles definitions into shapes; each once, so that they may refer to themselves."""

    def __init__(
        self, definitions: Mapping[str, Any], empties: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._definitions = definitions
        self._empties = empties
        self._made: dict[str, Shape] = {}

    def of(self, name: str) -> Shape:
        shape = self._made.get(name)
        if shape is None:
            shape = self._made[name] = Shape()
            properties = self._definitions[name].get("properties", {})
            rules = self._empties.get(name, {})
            fields = {key: self._field(child) for key, child in properties.items()}
            shape.fill(
                fields,
                {
                    key: _TYPES[child["type"]][0]
                    for key, child in properties.items()
                    if child.get("type") in _TYPES and not referred(child)
                },
                frozenset(
                    key
                    for key in fields
                    if key not in rules or (rules[key] == "always" and "enum" in properties[key])
                ),
                {
                    key: self._empty(properties[key], rule)
                    for key, rule in rules.items()
                    # An empty choice is no choice: left out, so that validation asks for one.
                    if rule != "keep" and "enum" not in properties[key]
                },
            )
        return shape

    def _field(self, tree: Mapping[str, Any]) -> Settle:
        name = referred(tree)
        if name in _LEAVES:
            return _LEAVES[name]
        for ending, other in _OR.items():
            if name.endswith(ending):
                schema = f"{name.removesuffix(ending)}Props"
                return _schema_or(self.of(schema), other)
        if name:
            target = self._definitions[name]
            return self.of(name).settle if "properties" in target else _as_is
        match tree.get("type"):
            case "array":
                return _list_of(self._field(tree["items"]))
            case "object":
                inner = tree.get("additionalProperties")
                if not isinstance(inner, Mapping):
                    return _as_is
                if referred(inner) == _QUANTITY:
                    return _resources
                return _map_of(self._field(inner), _ZEROS.get(inner.get("type", "")))
            case str() as kind if kind in _TYPES:
                return _scalar(kind, _TYPES[kind])
        return _as_is

    def _empty(self, tree: Mapping[str, Any], rule: str) -> Callable[[], Any]:
        name = referred(tree)
        if rule == "null":
            return lambda: None
        if name == _QUANTITY:
            return lambda: "0"
        if name == _INT_OR_STRING:
            return lambda: 0
        if name:
            shape = self.of(name)
            return lambda: shape.settle({})
        zero = _ZEROS[tree["type"]]
        return lambda: zero


def referred(tree: Mapping[str, Any]) -> str:
    """Return the definition a tree refers to, if any. With siblings it is an allOf of one."""
    (only,) = tree.get("allOf") or (tree,)
    return str(only.get("$ref", "")).rpartition("/")[2]


def _as_is(value: Any, _was: Any) -> Any:
    return value


def _scalar(kind: str, types: tuple[type, ...]) -> Settle:
    def settle(value: Any, _was: Any) -> Any:
        if value.__class__ not in types:
            raise _unlike(value, kind)
        return value

    return settle


def _schema_or(schema: Shape, other: type) -> Settle:
    def settle(value: Any, was: Any) -> Any:
        if value.__class__ is dict:
            return schema.settle(value, was)
        if value.__class__ is not other:
            raise _unlike(value, "a schema")
        return value

    return settle


def _list_of(element: Settle) -> Settle:
    def settle(value: Any, _was: Any) -> Any:
        if value.__class__ is not list:
            raise _unlike(value, "an array")
        for index, item in enumerate(value):
            try:
                value[index] = element(item, MISSING)
            except Unlike as problem:
                raise problem.within(f"[{index}]") from None
        return value

    return settle


def _map_of(element: Settle, zero: Any) -> Settle:
    def settle(value: Any, was: Any) -> Any:
        if value.__class__ is not dict:
            raise _unlike(value, "an object")
        seen = was if was.__class__ is dict else NOTHING
        for key, item in value.items():
            before = seen.get(key, MISSING)
            if item is before:
                continue
            try:
                value[key] = zero if item is None else element(item, before)
            except Unlike as problem:
                raise problem.within(f"[{key}]") from None
        return value

    return settle


def _quantity(value: Any, _was: Any, spell: Callable[[str | float], str] = spelled) -> str:
    if value.__class__ not in (str, int, float):
        raise _unlike(value, "a quantity")
    try:
        return spell(value)
    except BadQuantity as problem:
        raise Unlike(str(problem)) from None


def _resource(value: Any, was: Any) -> str:
    return _quantity(value, was, spelled_resource)


_resources = _map_of(_resource, "0")


def _time(value: Any, _was: Any) -> str:
    if value.__class__ is not str:
        raise _unlike(value, "a time")
    try:
        return rfc3339(parse_time(value))
    except ValueError as problem:
        raise Unlike(str(problem)) from None


def _micro_time(value: Any, was: Any) -> str:
    # A real server takes six decimals, no more and no fewer: a client that writes another number
    # of them must not find out on a real cluster.
    if value.__class__ is str and not _SIX_DECIMALS.search(value):
        raise Unlike(f'parsing time "{value}": six decimals are required')
    _time(value, was)
    return rfc3339_micro(parse_time(value))


def _int_or_string(value: Any, _was: Any) -> Any:
    if value.__class__ not in (int, str) or (value.__class__ is int and abs(value) >= 2**31):
        raise _unlike(value, "an integer of 32 bits or a string")
    return value


_LEAVES: dict[str, Settle] = {
    _QUANTITY: _quantity,
    _TIME: _time,
    _MICRO_TIME: _micro_time,
    _INT_OR_STRING: _int_or_string,
}
