"""What is right at a glance is what a walk finds nothing wrong with."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.embedded.apiserver.builtin.index import kinds
from boilerhouse.embedded.apiserver.crd.kind import kind_from_crd
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.schemas.glance import Glance
from boilerhouse.embedded.apiserver.schemas.schema import Schema
from boilerhouse.operator.catalogue import crds
from tests.unit.embedded.apiserver.schemas.schema_cases import CASES, Case, root
from tests.unit.embedded.apiserver.schemas.update_cases import UPDATES, Update

# No type takes just any value, so an object of a kind that has such a field is always walked.
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def outcome(openapi: dict[str, Any], body: dict[str, Any]) -> Any:
    schema, body = Schema.compile(openapi), copy.deepcopy(body)
    unknown = schema.prune(body)
    schema.default(body)
    return unknown, repr(body), schema.validate(body)


def walked(openapi: dict[str, Any]) -> dict[str, Any]:
    return {**openapi, "properties": {**openapi["properties"], "anything": ANYTHING}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_walk_comes_to_the_same(case: Case) -> None:
    """Objects, unknown fields and causes are the same whether an object is walked or not."""
    openapi, body = root(case.schema), {"spec": case.spec, **case.rest}
    assert outcome(openapi, body) == outcome(walked(openapi), body)


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.name)
def test_a_walk_of_both_sides_comes_to_the_same(case: Update) -> None:
    """The objects of an update, each alone, are judged the same whether walked or not."""
    for openapi in (root(case.before), root(case.after)):
        for spec in (case.old, case.new):
            body = {"spec": spec}
            assert outcome(openapi, body) == outcome(walked(openapi), body)


NAMES = ("BoilerhouseClaim", "BoilerhousePool", "BoilerhouseWorkload", "Event", "Lease", "Pod")
OFTEN_WRITTEN = [kind for kind in (*map(kind_from_crd, crds()), *kinds()) if kind.kind in NAMES]


@pytest.mark.parametrize("kind", OFTEN_WRITTEN, ids=lambda kind: kind.kind)
def test_kinds_that_are_often_written_are_seen_at_a_glance(kind: Kind) -> None:
    """Their schemas can be expressed as types, so that a right object needs no walk."""
    assert Glance(kind.schema.root).right({"apiVersion": "v1", "kind": kind.kind})


def test_only_what_is_right_is_right_at_a_glance() -> None:
    """An object passes; the same with another field, a null or a wrong type does not."""
    glance = Glance(Schema.compile(DEEP).root)
    assert glance.right({"spec": {"a": "ab", "e": 9, "l": [{"a": "x"}]}})
    wrongs: list[dict[str, Any]] = [
        {"z": 1}, {"b": None}, {"j": 1}, {"b": "c"}, {"e": 10}, {"l": [{}]},
    ]  # fmt: skip
    for wrong in wrongs:
        assert not glance.right({"spec": {"a": "ab", **wrong}})


TEXTS = st.sampled_from(["", "a", "b", "ab", "ab\n", "abc", "ß", "2026-01-02T03:04:05Z", "soon"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from([2**31, 2**63, -(2**63), 3.0, 1.5])
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abcdefghijkl"), inner, max_size=6)
    ),
    max_leaves=12,
)
S, N = {"type": "string"}, {"type": "integer"}
FIELDS: dict[str, Any] = {
    "a": {**S, "minLength": 1, "maxLength": 2},
    "b": {**S, "pattern": "^a?b?$"},
    "c": {**S, "format": "date-time", "nullable": True},
    "d": {**S, "enum": ["a", "b"], "nullable": True},
    "e": {**N, "minimum": 1, "maximum": 10, "exclusiveMaximum": True},
    "f": {**N, "nullable": True},
    "g": {"type": "array", "items": S, "maxItems": 2, "x-kubernetes-list-type": "set"},
    "h": {"type": "object", "additionalProperties": {**S, "maxLength": 1}, "minProperties": 1},
    "i": {"x-kubernetes-int-or-string": True},
    "j": {"type": "boolean"},
    "k": {"type": "number", "maximum": 5},
}
LEVEL = {"type": "object", "properties": FIELDS, "required": ["a"]}
DEEP = root({**LEVEL, "properties": {**FIELDS, "l": {"type": "array", "items": LEVEL}}})
GOOD = st.fixed_dictionaries(
    {"a": st.just("ab")},
    optional={
        "b": st.just("ab"),
        "c": st.none() | st.just("2026-01-02T03:04:05Z"),
        "d": st.sampled_from("ab"),
        "e": st.integers(1, 9),
        "f": st.none() | st.integers(-5, 5),
        "g": st.lists(st.sampled_from("ab"), max_size=2),
        "h": st.dictionaries(TEXTS, st.just("x"), min_size=1),
        "i": st.integers(0, 5) | TEXTS,
        "j": st.booleans(),
        "k": st.integers(0, 5),
    },
)


@given(GOOD, st.dictionaries(st.sampled_from("abcdefghijkl"), VALUES, max_size=3))
def test_one_wrong_field_is_never_overlooked(good: dict[str, Any], other: dict[str, Any]) -> None:
    """Whatever is put into a right object, or taken out of it, is found as a walk finds it."""
    for spec in (good, {**good, **other}, {**good, "l": [good, {**good, **other}]}, other):
        body = {"spec": spec}
        assert outcome(DEEP, body) == outcome(walked(DEEP), body)
