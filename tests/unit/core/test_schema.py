"""A Struct becomes the structural schema that an API server takes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import pytest
from msgspec import Meta, Struct, field

from boilerhouse.core.rules import Rule, exactly_one_of
from boilerhouse.core.schema import (
    UNIQUE,
    FreeForm,
    Int32,
    Int64,
    Unstructural,
    doc,
    keyed_by,
    structural,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Leaf(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A leaf,
    on two lines."""

    leaf_name: Annotated[str, Meta(min_length=1, max_length=9, pattern=r"^a\Z"), doc("Its name.")]
    colour: Annotated[Colour, doc("Its colour.")] = Colour.BLUE


class Twig(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A twig."""

    long: bool = True


class Tree(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tree."""

    RULES: ClassVar = (
        exactly_one_of("maybe", "when"),
        Rule(cel="self.count > 0", message="count it", holds=lambda tree: True, field="count"),
    )

    count: Annotated[Int32, Meta(ge=0, le=9), doc("How many.")]
    weight: Annotated[float, Meta(ge=0.5)] = 0.0
    generation: Int64 = 0
    leaves: Annotated[tuple[Leaf, ...], Meta(max_length=3), keyed_by("leafName")] = ()
    names: Annotated[tuple[Annotated[str, Meta(max_length=5)], ...], UNIQUE] = ()
    labels: Annotated[dict[str, Annotated[str, Meta(max_length=5)]], Meta(max_length=2)] = field(
        default_factory=dict
    )
    twig: Twig = Twig()
    bent: Twig = Twig(long=False)
    maybe: Annotated[str, doc("If at all.")] | None = None
    when: Annotated[datetime, Meta(tz=True), doc("When.")] | None = None
    free: Annotated[FreeForm, doc("Anything.")] = field(default_factory=dict)
    text: str = "x"
    off: bool = False


TWIG = {
    "type": "object",
    "description": "A twig.",
    "properties": {"long": {"type": "boolean", "default": True}},
}


def test_a_struct_becomes_a_structural_schema() -> None:
    """Types, bounds, descriptions, defaults, list types and rules all arrive, and nothing else."""
    assert structural(Tree) == {
        "type": "object",
        "description": "A tree.",
        "required": ["count"],
        "properties": {
            "count": {
                "type": "integer",
                "description": "How many.",
                "format": "int32",
                "minimum": 0,
                "maximum": 9,
            },
            "weight": {
                "type": "number",
                "minimum": 0.5,
                # Written as an integer, 0 would be held against the bound without its fraction.
                "x-kubernetes-validations": [
                    {"rule": "self >= 0.5", "message": "must be at least 0.5"}
                ],
            },
            "generation": {"type": "integer", "format": "int64"},
            "leaves": {
                "type": "array",
                "maxItems": 3,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["leafName"],
                "items": {
                    "type": "object",
                    "description": "A leaf, on two lines.",
                    "required": ["leafName"],
                    "properties": {
                        "leafName": {
                            "type": "string",
                            "description": "Its name.",
                            "minLength": 1,
                            "maxLength": 9,
                            "pattern": "^a$",
                        },
                        "colour": {
                            "type": "string",
                            "description": "Its colour.",
                            "enum": ["red", "blue"],
                            "default": "blue",
                        },
                    },
                },
            },
            "names": {
                "type": "array",
                "items": {"type": "string", "maxLength": 5},
                "x-kubernetes-list-type": "set",
            },
            "labels": {
                "type": "object",
                "maxProperties": 2,
                "additionalProperties": {"type": "string", "maxLength": 5},
            },
            "twig": {**TWIG, "default": {}},
            "bent": {**TWIG, "default": {"long": False}},
            "maybe": {"type": "string", "description": "If at all."},
            "when": {"type": "string", "description": "When.", "format": "date-time"},
            "free": {
                "type": "object",
                "description": "Anything.",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "text": {"type": "string", "default": "x"},
            "off": {"type": "boolean"},
        },
        "x-kubernetes-validations": [
            {
                "rule": "[has(self.maybe), has(self.when)].exists_one(there, there)",
                "message": "exactly one of maybe and when must be set",
            },
            {"rule": "self.count > 0", "message": "count it", "fieldPath": ".count"},
        ],
    }


@pytest.mark.parametrize(
    "hint",
    [
        int | str,
        set[str],
        Any,
        bytes,
        dict[int, str],
        list[int],
        Annotated[int, Meta(gt=0)],
        Annotated[float, Meta(multiple_of=2)],
    ],
    ids=str,
)
def test_what_no_structural_schema_can_say_is_refused(hint: Any) -> None:
    """A field that could only be approximated is an error, not an approximation."""
    namespace = {"__annotations__": {"field": hint}}
    odd = type("Odd", (Struct,), namespace)
    with pytest.raises(Unstructural, match="no structural schema"):
        structural(odd)
