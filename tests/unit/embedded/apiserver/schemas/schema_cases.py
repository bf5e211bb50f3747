"""Schemas and objects, with what a real kube-apiserver 1.34 made of them.

Each case is a schema of `spec` and the value of `spec` sent in a create; `schema_outcomes.json` has
the recorded answer under the case's name: `stored` (the object after pruning and defaulting,
without apiVersion, kind and what the server sets in metadata) and `unknown` (the paths in the
server's warnings), or `causes` (pairs of reason and field). The table is data so that it can run
against either world.
"""

# ruff: noqa: E501 - a table reads best with one case to a line

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

OUTCOMES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "schema_outcomes.json").read_text()
)


class Case(NamedTuple):
    """One create. `rest` is merged into the object beside `spec`."""

    name: str
    schema: dict[str, Any]
    spec: Any
    rest: Mapping[str, Any] = MappingProxyType({})


def root(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a whole object whose `spec` has this one."""
    return {"type": "object", "properties": {"spec": spec}}


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def need(*names: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(names)}


def array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def mapping(values: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, **more}


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


S = text()
I = {"type": "integer"}  # noqa: E741 - as short as S and B
N = {"type": "number"}
B = {"type": "boolean"}
KEEP = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
PAIR = need("k", k=S, v=I)
PAIRS = array(PAIR, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})
SET = array(S, **{"x-kubernetes-list-type": "set"})
EMBEDDED = {
    "type": "object", "x-kubernetes-embedded-resource": True, **KEEP,
}  # fmt: skip


def _format(name: str, *values: str) -> list[Case]:
    return [
        Case(f"format {name}: {value[:40]!r}", fields(a=text(format=name)), {"a": value})
        for value in values
    ]


def _pattern(pattern: str, *values: str) -> list[Case]:
    return [
        Case(f"pattern {pattern}: {value!r}", fields(a=text(pattern=pattern)), {"a": value})
        for value in values
    ]


CASES: list[Case] = [
    # Types
    Case("types all right", fields(a=S, b=I, c=N, d=B, e=array(S), f=fields()),
         {"a": "x", "b": 1, "c": 1.5, "d": True, "e": [], "f": {}}),
    Case("types all wrong", fields(a=S, b=I, c=N, d=B, e=array(S), f=fields(x=S)),
         {"a": 1, "b": "1", "c": "1.5", "d": 1, "e": {"x": 1}, "f": []}),
    Case("string where an object belongs", fields(x=S), "text"),
    Case("integer written 3.0", fields(a=I), {"a": 3.0}),
    Case("integer written 3.5", fields(a=I), {"a": 3.5}),
    Case("integer beyond 64 bits", fields(a=I), {"a": 2**63}),
    Case("integer beyond 53 bits", fields(a=I), {"a": 2**53 + 1}),
    Case("number beyond 64 bits", fields(a=N), {"a": 2**64}),
    Case("number written as integer", fields(a=N), {"a": 3}),
    Case("true is not an integer", fields(a=I), {"a": True}),
    Case("int32 is not a range", fields(a={"type": "integer", "format": "int32"}), {"a": 2**40}),
    Case("format of another type", fields(a={"type": "integer", "format": "date"}), {"a": 3}),
    Case("int-or-string takes both", fields(a=INT_OR_STRING, b=INT_OR_STRING),
         {"a": 1, "b": "50%"}),
    Case("int-or-string takes nothing else", fields(a=INT_OR_STRING, b=INT_OR_STRING),
         {"a": 1.5, "b": [1]}),
    # Null
    Case("null without default goes", fields(a=S, b=fields(c=S)), {"a": None, "b": {"c": None}}),
    Case("null with default is defaulted", fields(a=text(default="d")), {"a": None}),
    Case("null that is allowed stays", fields(a=text(nullable=True)), {"a": None}),
    Case("null that is allowed is not defaulted", fields(a=text(nullable=True, default="d")),
         {"a": None}),
    Case("null item is an error", fields(a=array(S)), {"a": ["x", None]}),
    Case("null item that is allowed", fields(a=array(text(nullable=True))), {"a": ["x", None]}),
    Case("null entry of a map goes", fields(a=mapping(S)), {"a": {"x": None, "y": "z"}}),
    Case("null of a required field", need("a", a=S), {"a": None}),
    Case("null of a required field with default", need("a", a=text(default="d")), {"a": None}),
    Case("null in an enum that lists it", fields(a=text(nullable=True, enum=["x", None])),
         {"a": None}),
    Case("null under preserve", {**KEEP, **fields(a=S)}, {"a": None, "u": None}),
    Case("null spec", fields(a=S), None),
    # Pruning
    Case("unknown fields go", fields(a=S, o=fields(b=S), l=array(fields(c=S))),
         {"a": "x", "z": 1, "o": {"b": "x", "z": 1}, "l": [{"c": "x"}, {"c": "x", "z": {"y": 1}}]}),
    Case("unknown at the root goes", fields(a=S), {"a": "x"}, {"extra": {"x": 1}, "more": 1}),
    Case("unknown in metadata goes", fields(a=S), {"a": "x"},
         {"metadata": {"labels": {"a": "b"}, "color": "red"}}),
    Case("preserve keeps", {"type": "object", **KEEP}, {"a": 1, "b": {"c": [1, {"d": None}]}}),
    Case("preserve prunes what it knows", {**KEEP, **fields(a=fields(b=S))},
         {"a": {"b": "x", "u": 1}, "u": {"v": 1}}),
    Case("preserve inside", fields(a={"type": "object", **KEEP}, b=fields()),
         {"a": {"x": {"y": 1}}, "b": {"x": 1}}),
    Case("preserve of a list", fields(a={"type": "array", **KEEP, "items": fields(b=fields(c=S))}),
         {"a": [{"u": 1, "b": {"c": "x", "u": 1}}]}),
    Case("map values are pruned", fields(a=mapping(fields(b=S))),
         {"a": {"x": {"b": "1", "u": 1}, "y.z": {"u": 1}}}),
    Case("map of anything", fields(a=mapping(True)), {"a": {"x": 1, "y": {"z": 1}, "l": [{"m": 1}]}}),
    Case("map of preserved", fields(a=mapping(KEEP)), {"a": {"x": 1, "y": {"z": [1]}}}),
    Case("embedded resource", fields(a=EMBEDDED),
         {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "u": 1},
                "spec": {"x": 1}}}),
    Case("embedded resource that prunes", fields(a={
        "type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": fields(x=I)}}),
         {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "u": 1,
                "spec": {"x": 1, "u": 1}}}),
    Case("embedded resource without type", fields(a=EMBEDDED), {"a": {"spec": {"x": 1}}}),
    Case("embedded resource with bad type", fields(a=EMBEDDED, b=array(EMBEDDED)),
         {"a": {"apiVersion": "a/b/c", "kind": "-"}, "b": [{"apiVersion": "", "kind": "Pod"}]}),
    # Defaults
    Case("defaults", fields(a=text(default="x"), b={"type": "integer", "default": 0},
                            c={"type": "boolean", "default": False}), {}),
    Case("defaults do not replace", fields(a=text(default="x"), b={"type": "integer", "default": 5}),
         {"a": "", "b": 0}),
    Case("default needs its parent", fields(o=fields(a=text(default="x"))), {}),
    Case("default in a parent", fields(o=fields(a=text(default="x"))), {"o": {}}),
    Case("default of a parent fills its children",
         fields(o={**fields(a=text(default="x"), b=S), "default": {"b": "y"}}), {}),
    Case("defaults in items", fields(l=array(fields(a=text(default="x")))), {"l": [{}, {"a": "y"}]}),
    Case("defaults in map values", fields(m=mapping(fields(a=text(default="x")))), {"m": {"k": {}}}),
    Case("default of a list", fields(l={**array(I), "default": [1, 2]}), {}),
    Case("default satisfies required", need("a", a=text(default="x")), {}),
    # Required, enum, ranges
    Case("required missing", need("a", "b", a=S, o=need("c", c=S)), {"o": {}}),
    Case("required in items", fields(l=array(need("a", a=S))), {"l": [{"a": "x"}, {}]}),
    Case("required at the root", fields(a=S), {}, {"spec": None}),
    Case("enum", fields(a=text(enum=["x", "y"]), b=text(enum=["x", "y"])), {"a": "x", "b": "z"}),
    Case("enum of numbers", fields(a={"type": "integer", "enum": [1, 2]},
                                   b={"type": "integer", "enum": [1, 2]}), {"a": 2, "b": 3}),
    Case("enum of floats", fields(a={"type": "number", "enum": [1.5, 2]}), {"a": 2}),
    Case("minimum and maximum", fields(a={**I, "minimum": 1, "maximum": 3},
                                       b={**I, "minimum": 1, "maximum": 3}), {"a": 0, "b": 4}),
    Case("minimum and maximum hold at the ends", fields(a={**I, "minimum": 1}, b={**I, "maximum": 3}),
         {"a": 1, "b": 3}),
    Case("exclusive bounds", fields(a={**I, "minimum": 1, "exclusiveMinimum": True},
                                    b={**N, "maximum": 3, "exclusiveMaximum": True}),
         {"a": 1, "b": 3}),
    Case("fractional bound for an integer", fields(a={**I, "minimum": 2.5}, b={**I, "maximum": 2.5}),
         {"a": 2, "b": 3}),
    Case("fractional bound for a number", fields(a={**N, "minimum": 0.01}), {"a": 0.001}),
    Case("multipleOf", fields(a={**I, "multipleOf": 5}, b={**I, "multipleOf": 5}), {"a": 10, "b": 7}),
    Case("multipleOf a fraction", fields(a={**N, "multipleOf": 0.5}, b={**N, "multipleOf": 0.5}),
         {"a": 1.5, "b": 1.25}),
    Case("multipleOf a fraction for a whole number", fields(a={**N, "multipleOf": 0.5}), {"a": 2}),
    Case("lengths", fields(a=text(minLength=2), b=text(maxLength=2), c=text(maxLength=2)),
         {"a": "x", "b": "xyz", "c": "éé"}),
    Case("length before pattern", fields(a=text(minLength=2, pattern="^a")), {"a": "b"}),
    Case("bounds of a wrong type", fields(a=text(minLength=3), b={**I, "minimum": 3}),
         {"a": 1, "b": "x"}),
    Case("bound checked although the type is wrong", fields(a={**S, "minimum": 3}), {"a": 1}),
    Case("items", fields(a={**array(I), "minItems": 1}, b={**array(I), "maxItems": 1}),
         {"a": [], "b": [1, 2]}),
    Case("properties", fields(a=mapping(I, minProperties=1), b=mapping(I, maxProperties=1)),
         {"a": {}, "b": {"x": 1, "y": 2}}),
    Case("errors everywhere at once", need("z", a=text(enum=["x"]), l=array({**I, "minimum": 1}),
                                           m=mapping(text(maxLength=1)), z=S),
         {"a": "y", "l": [0, "x", 1], "m": {"k": "long", "k.2": "ok?"}}),
    # List types
    Case("set list", fields(a=SET), {"a": ["x", "y", "x", "x", "y"]}),
    Case("map list", fields(a=PAIRS), {"a": [{"k": "x"}, {"k": "y"}, {"k": "x", "v": 1}]}),
    Case("map list with two keys", fields(a=array(
        need("p", "q", p=I, q=S),
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p", "q"]})),
         {"a": [{"p": 1, "q": "t"}, {"p": 1, "q": "u"}, {"p": 1, "q": "t"}]}),
    Case("map list inside a map", fields(m=mapping(PAIRS)), {"m": {"z": [{"k": "x"}, {"k": "x"}]}}),
    Case("map list whose items lack the key", fields(a=PAIRS), {"a": [{"v": 1}, {"v": 2}]}),
    Case("atomic list", fields(a=array(S, **{"x-kubernetes-list-type": "atomic"})), {"a": ["x", "x"]}),
    # Logic
    Case("anyOf holds", {**fields(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {"b": "x"}),
    Case("anyOf fails", {**fields(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}),
    Case("oneOf holds", {**fields(a=S, b=S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {"b": "x"}),
    Case("oneOf none", {**fields(a=S, b=S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}),
    Case("oneOf both", {**fields(a=S, b=S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {"a": "x", "b": "x"}),
    Case("allOf fails", {**fields(a=I), "allOf": [{"properties": {"a": {"minimum": 3}}},
                                                  {"properties": {"a": {"maximum": 9}}}]}, {"a": 1}),
    Case("not fails", fields(a={**S, "not": {"enum": ["x"]}}), {"a": "x"}),
    Case("not holds", fields(a={**S, "not": {"enum": ["x"]}}), {"a": "y"}),
    Case("anyOf takes the alternative that looked at most", {**fields(a=S, b=fields(c=I)), "anyOf": [
        {"required": ["a"]}, {"properties": {"b": {"properties": {"c": {"minimum": 5}}}}}]},
         {"b": {"c": 1}}),
    Case("int-or-string with logic", fields(a={
        **INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+%?$"}), {"a": "5x"}),
    # Patterns
    *_pattern("^a+$", "aaa", "aab", "a\n"),
    *_pattern("b", "abc"),
    *_pattern(r"^\s$", "\v", "\t"),
    *_pattern(r"^\d$", "٣", "3"),
    *_pattern("^[[:alpha:]_]{2,}$", "a_", "a1"),
    *_pattern("(?i)^k$", "K", "\u212a"),
    *_pattern("^x{,2}$", "xx", "x{,2}"),
    *_pattern(r"^[^/\s]+(/[^/\s]+)*\z", "a/b", "a//b"),
    # Formats
    *_format("date-time", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.123+02:00", "2024-05-01",
             "2024-13-01T10:00:00Z", "2024-05-01t10:00:00z", "2024-05-01T24:00:00Z"),
    *_format("date", "2024-02-29", "2023-02-29", "20240229"),
    *_format("duration", "1h30m", "1.5s", "3 days", "1", "0", "PT1H", "-5m"),
    *_format("byte", "aGVsbG8=", "aGVsbG8", "-_-_", ""),
    *_format("uuid", "123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000", "x"),
    *_format("ipv4", "10.0.0.1", "010.0.0.1", "256.0.0.1", "::1"),
    *_format("ipv6", "::1", "fe80::1%eth0", "10.0.0.1", "::ffff:10.0.0.1"),
    *_format("cidr", "10.0.0.0/8", "10.0.0.1/33", "fd00::/8", "10.0.0.0"),
    *_format("hostname", "example.com", "a_b", "-a", "x" * 64, "a-b.c1", "1host"),
    *_format("uri", "http://a/b?c=d", "/path", "path", "mailto:a@b", "http://a b", "http://[::1", ""),
    *_format("email", "a@b.c", "A <a@b.c>", "a", "a@", "a b@c"),
    *_format("mac", "01:23:45:67:89:ab", "0123.4567.89ab", "01:23:45:67:89"),
    *_format("password", "anything"),
    *_format("isbn", "0321751043", "978-0321751041", "0321751044"),
    *_format("hexcolor", "#fff", "ffff"),
    *_format("k8s-short-name", "-not-checked-before-1.34-"),
    *_format("no-such-format", "anything"),
]  # fmt: skip
