"""Custom resources: what one kind of ours is, and the CustomResourceDefinition made of it.

    Spec, Status (model.py) ─┐
    Machine (machine.py) ────┴─► CustomResource ─► crd() ─► config/crd, embedded API

The schema is assembled here and nowhere else: the Structs' own, the machine's phase with its
transitions, and the root rule that a phase once written stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from boilerhouse.core.machine import PHASE_STAYS, Machine, status_schema
from boilerhouse.core.names import GROUP, NAME_LIMIT, VERSION
from boilerhouse.core.patterns import DNS_LABEL, re2
from boilerhouse.core.problems import problems
from boilerhouse.core.schema import Schema, structural


@dataclass(frozen=True, slots=True)
class Column:
    """What `kubectl get` shows of an object: a title and a JSONPath."""

    title: str
    path: str
    type: str = "string"


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Scale:
    """Paths of the scale subresource, for `kubectl scale` and autoscalers."""

    spec: str
    status: str
    selector: str


@dataclass(frozen=True, slots=True)
class CustomResource:
    """One kind of an API group of ours."""

    kind: str
    short_name: str
    doc: str
    spec: type[msgspec.Struct]
    status: type[msgspec.Struct]
    machine: Machine[Any]
    columns: tuple[Column, ...]
    scale: Scale | None = None
    group: str = GROUP
    version: str = VERSION

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def plural(self) -> str:
        return f"{self.singular}s"

    def problems(self, spec: object) -> list[str]:
        """Return everything that is wrong with a spec as it came from JSON; see problems.py."""
        return problems(self.spec, spec)

    def schema(self) -> Schema:
        """Return the schema of the whole object."""
        status = structural(self.status)
        lifecycle: dict[str, Any] = status_schema(self.machine)
        status["properties"] |= lifecycle["properties"]
        return {
            "type": "object",
            "description": self.doc,
            "required": ["spec"],
            "properties": {
                "apiVersion": {
                    "type": "string",
                    "description": "Group and version of this object's schema.",
                },
                "kind": {"type": "string", "description": "Name of this object's schema."},
                # Labels and other objects' names carry this name, so it must fit a DNS label.
                "metadata": {
                    "type": "object",
                    "properties": {
                        "name": {
                            "type": "string",
                            "maxLength": NAME_LIMIT,
                            "pattern": re2(DNS_LABEL),
                        }
                    },
                },
                "spec": structural(self.spec),
                "status": {**status, "default": lifecycle["default"]},
            },
            "x-kubernetes-validations": [dict(PHASE_STAYS)],
        }

    def crd(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition."""
        subresources: dict[str, Any] = {"status": {}}
        if self.scale:
            subresources["scale"] = {
                "specReplicasPath": self.scale.spec,
                "statusReplicasPath": self.scale.status,
                "labelSelectorPath": self.scale.selector,
            }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.singular,
                    "shortNames": [self.short_name],
                    "categories": ["boilerhouse"],
                },
                "versions": [
                    {
                        "name": self.version,
                        "served": True,
                        "storage": True,
                        "subresources": subresources,
                        "additionalPrinterColumns": [
                            {"name": column.title, "type": column.type, "jsonPath": column.path}
                            for column in (*self.columns, AGE)
                        ],
                        "schema": {"openAPIV3Schema": self.schema()},
                    }
                ],
            },
        }
