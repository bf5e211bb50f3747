"""The built-in kinds' definitions, ready for use: schemas, merge tables, shapes.

trees.json (facts) + honoured.py (what is refused) ─► Trees ─► schema(), merging(), shape()
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import msgspec

from boilerhouse.embedded.apiserver.builtin.honoured import ONLY, REFUSED
from boilerhouse.embedded.apiserver.builtin.shapes import Shape, Shapes, referred
from boilerhouse.embedded.apiserver.builtin.words import WORDS
from boilerhouse.embedded.apiserver.schemas.node import REFUSED_KEY
from boilerhouse.embedded.apiserver.schemas.schema import Builder, Schema
from boilerhouse.embedded.fields.strategic import Merging

_MACHINERY: Final = "io.k8s.apimachinery.pkg."
# Written by the document as alternatives; a shape has made them one thing before a schema looks.
_VALUES: Final[dict[str, dict[str, Any]]] = {
    _MACHINERY + "api.resource.Quantity": {"type": "string", "nullable": True},
    _MACHINERY + "util.intstr.IntOrString": {
        "format": "int-or-string",
        "x-kubernetes-int-or-string": True,
    },
    _MACHINERY + "apis.meta.v1.Time": {"type": "string", "format": "date-time", "nullable": True},
    _MACHINERY + "apis.meta.v1.MicroTime": {
        "type": "string",
        "format": "date-time",
        "nullable": True,
    },
}
# What a schema may say about its parts is judged by crd/rules.py; the document leaves it open.
_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ANYTHING: Final[dict[str, dict[str, Any]]] = {
    _APIEXTENSIONS + name: {"x-kubernetes-preserve-unknown-fields": True}
    for name in (
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    )
}
# The document says required, the real server does not insist.
_OPTIONAL: Final = {
    "io.k8s.api.core.v1.LimitRangeSpec": "limits",
    "io.k8s.api.discovery.v1.EndpointSlice": "endpoints",
}

# (definition, field, keyword): checked by rules of ours, which say what the real server says.
_FREE: Final = (
    ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", "accessModes", "enum"),
    ("io.k8s.api.core.v1.Taint", "effect", "enum"),
    ("io.k8s.api.core.v1.Secret", "data", "format"),
    ("io.k8s.api.core.v1.ConfigMap", "binaryData", "format"),
    (_APIEXTENSIONS + "ValidationRule", "reason", "enum"),
)


class Trees:
    """Definitions by name. Immutable once made."""

    def __init__(self) -> None:
        data = resources.files(__package__).joinpath("trees.json").read_bytes()
        facts: dict[str, Any] = msgspec.json.decode(data)
        self.version: str = facts["version"]
        self.definitions: dict[str, Any] = facts["definitions"] | _VALUES | _ANYTHING
        for name, fields in REFUSED.items():
            for field, why in fields.items():
                self._property(name, field)[REFUSED_KEY] = why
                self._describe(name, field, f"Not supported here: {why}.")
        for name, only in ONLY.items():
            for field, values in only.items():
                self._property(name, field)["enum"] = values
        for name, field in _OPTIONAL.items():
            self.definitions[name]["required"].remove(field)
        for name, field, keyword in _FREE:
            tree = self._property(name, field)
            tree.get("items", tree.get("additionalProperties", tree)).pop(keyword)
        for name, words in WORDS.items():
            for field, text in words.items():
                self._describe(name, field, text)
        for tree in self.definitions.values():
            for field in tree.get("properties", {}).values():
                inner = field.get("additionalProperties", {})
                if inner.get("type") == "string":
                    inner["nullable"] = True  # null is read as the empty text
        self._builder = Builder(self.definitions)
        self._shapes = Shapes(self.definitions, facts["empties"])
        self._merging: dict[str, Mapping[str, Merging]] = {}

    def _property(self, name: str, field: str) -> dict[str, Any]:
        # A table that names what does not exist is a mistake: KeyError at import.
        found: dict[str, Any] = self.definitions[name]["properties"][field]
        return found

    def _describe(self, name: str, field: str, text: str) -> None:
        tree = self._property(name, field) if field else self.definitions[name]
        if "$ref" in tree:
            # OpenAPI ignores what stands beside a reference; inside an allOf it is seen.
            tree["allOf"] = [{"$ref": tree.pop("$ref")}]
        tree["description"] = text

    def schema(self, name: str) -> Schema:
        return Schema.compile(self.definitions[name], builder=self._builder)

    def shape(self, name: str) -> Shape:
        return self._shapes.of(name)

    def merging(self, name: str) -> Mapping[str, Merging]:
        """Return the strategic-merge table of a definition's fields."""
        known = self._merging.get(name)
        if known is None:
            # A definition that contains itself (JSONSchemaProps) merges plainly below that point.
            self._merging[name] = {}
            fields = {
                field: self._field(tree)
                for field, tree in self.definitions[name].get("properties", {}).items()
            }
            known = self._merging[name] = {
                field: rule for field, rule in fields.items() if rule.merges or rule.fields
            }
        return known

    def _field(self, tree: Mapping[str, Any]) -> Merging:
        target = referred(tree.get("items", tree))
        strategy = tree.get("x-kubernetes-patch-strategy", "").split(",")
        return Merging(
            merges="merge" in strategy,
            key=tree.get("x-kubernetes-patch-merge-key", ""),
            fields=self.merging(target) if target else {},
        )
