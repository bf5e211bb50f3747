"""CRDs, with what a real kube-apiserver 1.34 said to them.

`SCHEMAS` are schemas put into an otherwise good CRD, `CHANGES` are changes to a good CRD; the
recorded answer in `crd_outcomes.json` is the list of causes (reason, field), empty when accepted.
"""

# ruff: noqa: E501 - a table reads best with one case to a line

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.embedded.apiserver.schemas.schema_cases import (
    KEEP,
    PAIR,
    array,
    fields,
    mapping,
    root,
    text,
)

OUTCOMES: dict[str, list[list[str]]] = json.loads(
    (Path(__file__).parent / "crd_outcomes.json").read_text()
)
S = text()


def rule(*rules: str, on: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schema = fields(a=S, b={"type": "integer"}) if on is None else on
    return {**schema, "x-kubernetes-validations": [{"rule": each, **more} for each in rules]}


def listed(kind: str, items: dict[str, Any], *keys: str) -> dict[str, Any]:
    extra: dict[str, Any] = {"x-kubernetes-list-type": kind}
    return array(items, **extra, **({"x-kubernetes-list-map-keys": list(keys)} if keys else {}))


SCHEMAS: dict[str, dict[str, Any]] = {
    "a good one": root(fields(a=S)),
    "no type at the root": {"properties": {"spec": fields(a=S)}},
    "a root that is no object": {"type": "string"},
    "no type of a field": root({"type": "object", "properties": {"a": {}}}),
    "no type of items": root(fields(a={"type": "array", "items": {}})),
    "an array without items": root(fields(a={"type": "array"})),
    "an unknown type": root(fields(a={"type": "text"})),
    "type null": root(fields(a={"type": "null"})),
    "a reference": root(fields(a={"type": "object", "$ref": "#/definitions/x"})),
    "uniqueItems": root(fields(a=array(S, uniqueItems=True))),
    "patternProperties": root(fields(a={"type": "object", "patternProperties": {"x": S}})),
    "definitions": root({**fields(a=S), "definitions": {"x": S}}),
    "dependencies": root({**fields(a=S), "dependencies": {"a": ["b"]}}),
    "items as a list": root(fields(a={"type": "array", "items": [S]})),
    "properties and additionalProperties": root({**fields(a=S), "additionalProperties": S}),
    "properties and additionalProperties true": root({**fields(a=S), "additionalProperties": True}),
    "additionalProperties at the root": {"type": "object", "additionalProperties": S},
    "nullable root": {**root(fields(a=S)), "nullable": True},
    "preserve false": root({**fields(a=S), "x-kubernetes-preserve-unknown-fields": False}),
    "metadata restricted by name": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": text(maxLength=5)}}}},
    "metadata restricted further": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": mapping(S)}}}},
    "kind is no string": {"type": "object", "properties": {"kind": {"type": "integer"}}},
    "default in metadata": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": text(default="x")}}}},
    "type inside anyOf": root(fields(a={**S, "anyOf": [{"type": "string"}]})),
    "int-or-string with its anyOf": root(fields(a={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
    "int-or-string with allOf": root(fields(a={"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}]})),
    "int-or-string that preserves": root(fields(a={"x-kubernetes-int-or-string": True, **KEEP})),
    "a property only inside anyOf": root({**fields(a=S), "anyOf": [{"properties": {"b": {"minLength": 1}}}]}),
    "description inside oneOf": root({**fields(a=S), "oneOf": [{"description": "x", "required": ["a"]}]}),
    "default inside allOf": root({**fields(a=S), "allOf": [{"properties": {"a": {"default": "x"}}}]}),
    "narrowing as allowed": root({**fields(a=S, l=array(S)), "allOf": [{"properties": {"a": {"minLength": 1}, "l": {"items": {"enum": ["x"]}}}}], "not": {"required": ["a", "l"]}}),
    "a pattern that is none": root(fields(a=text(pattern="["))),
    "a pattern with look-ahead": root(fields(a=text(pattern="(?=x)"))),
    "a pattern with a back-reference": root(fields(a=text(pattern=r"(x)\1"))),
    "list type of a string": root(fields(a={**S, "x-kubernetes-list-type": "set"})),
    "an unknown list type": root(fields(a=listed("bag", S))),
    "map list": root(fields(a=listed("map", PAIR, "k"))),
    "map list without keys": root(fields(a=listed("map", PAIR))),
    "map list of strings": root(fields(a=listed("map", S, "k"))),
    "map list with an unknown key": root(fields(a=listed("map", PAIR, "x"))),
    "map list with a key twice": root(fields(a=listed("map", PAIR, "k", "k"))),
    "map list with an optional key": root(fields(a=listed("map", PAIR, "v"))),
    "map list with a compound key": root(fields(a=listed("map", {**fields(o=fields()), "required": ["o"]}, "o"))),
    "map list with nullable items": root(fields(a=listed("map", {**PAIR, "nullable": True}, "k"))),
    "keys without map": root(fields(a=listed("set", S, "k"))),
    "set of objects": root(fields(a=listed("set", fields(x=S)))),
    "set of atomic objects": root(fields(a=listed("set", {**fields(x=S), "x-kubernetes-map-type": "atomic"}))),
    "set of sets": root(fields(a=listed("set", listed("set", S)))),
    "an unknown map type": root(fields(a={**fields(x=S), "x-kubernetes-map-type": "loose"})),
    "map type of a list": root(fields(a={**array(S), "x-kubernetes-map-type": "atomic"})),
    "embedded resource without properties": root(fields(a={"type": "object", "x-kubernetes-embedded-resource": True})),
    "embedded resource of no type": root(fields(a={"x-kubernetes-embedded-resource": True, **KEEP})),
    "default of the wrong type": root(fields(a=text(default=1))),
    "default outside the enum": root(fields(a=text(enum=["x"], default="y"))),
    "default with an unknown field": root(fields(o={**fields(a=S), "default": {"b": 1}})),
    "default that lacks a required field": root(fields(o={**fields(a=S), "required": ["a"], "default": {}})),
    "default of a nested object": root(fields(o={**fields(a=text(default="x")), "default": {}})),
    "default that breaks a rule": root(fields(a={**text(default="x", maxLength=5), "x-kubernetes-validations": [{"rule": "self != 'x'"}]})),
    "default in items": root(fields(l=array(text(default=5)))),
    "a good rule": root(rule("self.b > 1")),
    "a rule that is no bool": root(rule("self.b + 1")),
    "a rule that does not parse": root(rule("self.b >")),
    "a rule with an unknown field": root(rule("self.c > 1")),
    "an empty rule": root(rule("")),
    "a rule over lines without message": root(rule("self.b\n> 1")),
    "a rule over lines with message": root(rule("self.b\n> 1", message="m")),
    "a message of blanks": root(rule("self.b > 1", message=" ")),
    "a message over lines": root(rule("self.b > 1", message="a\nb")),
    "a messageExpression": root(rule("self.b > 1", messageExpression="'b is wrong'")),
    "a messageExpression that is no string": root(rule("self.b > 1", messageExpression="self.b")),
    "a messageExpression that does not compile": root(rule("self.b > 1", messageExpression="self.x")),
    "a reason": root(rule("self.b > 1", reason="FieldValueForbidden")),
    "an unknown reason": root(rule("self.b > 1", reason="Because")),
    "a fieldPath": root(rule("self.b > 1", fieldPath=".b")),
    "a fieldPath that leads nowhere": root(rule("self.b > 1", fieldPath=".c")),
    "a fieldPath without dot": root(rule("self.b > 1", fieldPath="b")),
    "optionalOldSelf without oldSelf": root(rule("self.b > 1", optionalOldSelf=True)),
    "optionalOldSelf": root(rule("!oldSelf.hasValue() || self.b >= oldSelf.value().b", optionalOldSelf=True)),
    "oldSelf in the items of an atomic list": root(fields(l=array(rule("self.b >= oldSelf.b"), maxItems=3))),
    "oldSelf in the items of a map list": root(fields(l={**listed("map", {**rule("self.v >= oldSelf.v", on=PAIR)}, "k"), "maxItems": 3})),
    "oldSelf in the values of a map": root(fields(m=mapping(rule("self.b >= oldSelf.b"), maxProperties=3))),
    "oldSelf in the items of a set": root(fields(l={**listed("set", {**text(maxLength=3), "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}), "maxItems": 3})),
    "a rule at the root sees the name": {**root(fields(a=S)), "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('x')"}]},
    "a rule at the root does not see labels": {**root(fields(a=S)), "x-kubernetes-validations": [{"rule": "has(self.metadata.labels)"}]},
    "a rule below the root does not see metadata": root(rule("has(self.metadata)")),
    "a rule inside allOf": root({**fields(a=text(maxLength=5)), "allOf": [{"x-kubernetes-validations": [{"rule": "self.a == 'x'"}]}]}),
    "a rule inside anyOf": root({**fields(a=text(maxLength=5)), "anyOf": [{"x-kubernetes-validations": [{"rule": "self.a == 'x'"}]}]}),
}  # fmt: skip


def crd(schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a good CRD, with this schema if any."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.case.test"},
        "spec": {
            "group": "case.test",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": schema or root(fields(a=S, n={"type": "integer"}))}}
            ],
        },
    }  # fmt: skip


Change = Callable[[dict[str, Any]], None]


def _at(*path: Any, to: Any) -> Change:
    def change(body: dict[str, Any]) -> None:
        place: Any = body
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = to

    return change


def _version(**values: Any) -> Change:
    return lambda body: body["spec"]["versions"][0].update(copy.deepcopy(values))


def _scale(**paths: str) -> Change:
    good = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    return _version(subresources={"scale": {**good, **paths}})


def _column(**values: Any) -> Change:
    good = {"name": "A", "type": "string", "jsonPath": ".spec.a"}
    return _version(additionalPrinterColumns=[{**good, **values}])


def _selectable(*paths: str) -> Change:
    return _version(selectableFields=[{"jsonPath": path} for path in paths])


def _second(**values: Any) -> Change:
    def change(body: dict[str, Any]) -> None:
        body["spec"]["versions"].append({**copy.deepcopy(body["spec"]["versions"][0]), **values})

    return change


CHANGES: dict[str, Change] = {
    "nothing changed": lambda body: None,
    "another name": _at("metadata", "name", to="other.case.test"),
    "group without dot": _at("spec", "group", to="case"),
    "illegal group": _at("spec", "group", to="Case.test"),
    "unknown scope": _at("spec", "scope", to="Everywhere"),
    "cluster scope": _at("spec", "scope", to="Cluster"),
    "illegal plural": _at("spec", "names", "plural", to="Things"),
    "illegal kind": _at("spec", "names", "kind", to="1Thing"),
    "kind and listKind the same": _at("spec", "names", "listKind", to="Thing"),
    "illegal short name": _at("spec", "names", "shortNames", to=["ok", "Not"]),
    "illegal category": _at("spec", "names", "categories", to=["all", "-"]),
    "no version": _at("spec", "versions", to=[]),
    "illegal version": _version(name="1"),
    "not stored": _version(storage=False),
    "two stored": _second(name="v2", served=False),
    "the same version twice": _second(storage=False, served=False),
    "a second version, not served": _second(name="v2", storage=False, served=False),
    "no schema": _version(schema={}),
    "preserveUnknownFields": _at("spec", "preserveUnknownFields", to=True),
    "conversion none": _at("spec", "conversion", to={"strategy": "None"}),
    "unknown conversion": _at("spec", "conversion", to={"strategy": "Magic"}),
    "scale": _scale(),
    "scale outside spec": _scale(specReplicasPath=".status.n"),
    "scale without status path": _scale(statusReplicasPath=""),
    "scale without dot": _scale(specReplicasPath="spec.n"),
    "scale with selector": _scale(labelSelectorPath=".status.selector"),
    "scale with selector elsewhere": _scale(labelSelectorPath=".metadata.name"),
    "status": _version(subresources={"status": {}}),
    "column": _column(priority=1, format="date-time"),
    "column of unknown type": _column(type="text"),
    "column of unknown format": _column(format="bold"),
    "column without name": _column(name=""),
    "column without path": _column(jsonPath=""),
    "column with a path without dot": _column(jsonPath="spec.a"),
    "selectable": _selectable(".spec.a", ".spec.n"),
    "selectable twice": _selectable(".spec.a", ".spec.a"),
    "selectable nowhere": _selectable(".spec.z"),
    "selectable object": _selectable(".spec"),
    "selectable in metadata": _selectable(".metadata.name"),
    "deprecation warning of a version that is not": _version(deprecationWarning="old"),
    "deprecated": _version(deprecated=True, deprecationWarning="old"),
}  # fmt: skip
