"""Layers of a template become one: each row of the table, alone and together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boilerhouse.engines.template.merge import Layer, over, split, under
from boilerhouse.engines.template.table import BY_FIELD, TABLE, Merge, Place, Row, Shape, page

# What two layers can say about a field, by its shape: the lower one and the upper one.
VALUES: dict[Shape, tuple[Any, Any]] = {
    Shape.TEXT: ("class", "engine"),
    Shape.OBJECT: ({"a": 1, "b": 1}, {"b": 2}),
    Shape.TEXTS: ({"a": "1", "b": "1"}, {"b": "2", "c": "2"}),
    Shape.OBJECTS: ([{"name": "a"}], [{"name": "b"}, {"name": "a"}]),
    Shape.WORDS: (["a"], ["b"]),
    Shape.RESOURCES: ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, {"limits": {"cpu": "3"}}),
    Shape.ANY: (1, 2),
}
BOTH: dict[Merge, Any] = {
    Merge.MAP: {"a": "1", "b": "2", "c": "2"},
    Merge.CONCAT: [{"name": "a"}, {"name": "b"}, {"name": "a"}],
}
ROWS = [row for row in TABLE if row.merge not in (Merge.OWNED, Merge.SERVERS)]


def layer(row: Row, value: Any) -> Layer:
    body = {row.field: value}
    return {
        Place.METADATA: Layer(metadata=body),
        Place.POD: Layer(pod=body),
        Place.SERVER: Layer(server=body),
    }[row.place]


EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)


@EACH
def test_what_only_one_says_is_taken(row: Row) -> None:
    """Class only, engine only: the value as it stands."""
    lower, upper = VALUES[row.shape]
    assert over(layer(row, lower), Layer()).at(row.place) == {row.field: lower}
    assert over(Layer(), layer(row, upper)).at(row.place) == {row.field: upper}


@EACH
def test_what_both_say_follows_the_rule(row: Row) -> None:
    """Lists are the class's, then the engine's; maps join; everything else is the engine's."""
    lower, upper = VALUES[row.shape]
    found = over(layer(row, lower), layer(row, upper)).at(row.place)
    assert found == {row.field: BOTH.get(row.merge, upper)}


@EACH
def test_null_is_absence(row: Row) -> None:
    """Null over a value leaves the value, as absence does."""
    lower, _ = VALUES[row.shape]
    assert over(layer(row, lower), layer(row, None)).at(row.place) == {row.field: lower}


def test_an_empty_object_is_said_and_an_empty_text_is_not() -> None:
    """An engine can have no affinity though its class has one; a text must say something."""
    klass = Layer(pod={"affinity": {"nodeAffinity": {}}, "schedulerName": "mine"})
    found = over(klass, Layer(pod={"affinity": {}, "schedulerName": ""}))
    assert found.pod == {"affinity": {}, "schedulerName": "mine"}


def test_resources_count_if_they_ask_for_something() -> None:
    """An empty block, or empty requests, leave the class's."""
    klass = Layer(server={"resources": {"limits": {"cpu": "1"}}})
    empty: list[dict[str, Any]] = [{}, {"requests": {}}, {"requests": None, "limits": {}}]
    for nothing in empty:
        assert over(klass, Layer(server={"resources": nothing})).server == klass.server


def test_the_security_context_is_filled_up_by_the_operator_alone() -> None:
    """The engine's replaces the class's whole; what is open is the operator's."""
    operator = Layer(pod={"securityContext": {"fsGroup": 3473, "runAsUser": 3473}})
    klass = Layer(pod={"securityContext": {"supplementalGroups": [1]}})
    engine = Layer(pod={"securityContext": {"fsGroup": 1}})
    users = over(klass, engine)
    assert users.pod == {"securityContext": {"fsGroup": 1}}
    assert under(operator, users).pod == {"securityContext": {"fsGroup": 1, "runAsUser": 3473}}


def test_lists_of_three_layers_are_in_order() -> None:
    """The operator's volumes first, then the class's, then the engine's."""
    layers = [Layer(pod={"volumes": [{"name": name}]}) for name in "oce"]
    merged = under(layers[0], over(layers[1], layers[2]))
    assert [volume["name"] for volume in merged.pod["volumes"]] == ["o", "c", "e"]


def test_a_template_is_taken_apart() -> None:
    """The server's container is found by its name, wherever it stands."""
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "tolerations": [{"key": "k"}],
            "containers": [{"name": "side"}, {"name": "engine", "image": "i"}],
        },
    }
    found = split(template, "engine")
    assert found.server == {"image": "i"}
    assert found.others == ({"name": "side"},)
    assert found.pod == {"tolerations": [{"key": "k"}]}
    assert found.metadata == {"labels": {"a": "b"}}
    assert split({}, "engine") == split({"metadata": None, "spec": {}}, "engine") == Layer()


def test_other_containers_are_the_classs_then_the_engines() -> None:
    """Each template's sidecars stay in their order."""
    klass, engine = Layer(others=({"name": "a"},)), Layer(others=({"name": "b"}, {"name": "c"}))
    assert [one["name"] for one in over(klass, engine).others] == ["a", "b", "c"]


def test_the_page_names_every_row_once() -> None:
    assert len(page().splitlines()) == 2 + len(TABLE)
    assert sum(len(rows) for rows in BY_FIELD.values()) == len(TABLE)


_TEXT = st.text("abc", max_size=2)
_SHAPES: dict[Shape, st.SearchStrategy[Any]] = {
    Shape.TEXT: _TEXT,
    Shape.OBJECT: st.dictionaries(_TEXT, st.integers(0, 2), max_size=2),
    Shape.TEXTS: st.dictionaries(_TEXT, _TEXT, max_size=2),
    Shape.OBJECTS: st.lists(st.dictionaries(_TEXT, _TEXT, max_size=1), max_size=2),
    Shape.WORDS: st.lists(_TEXT, max_size=2),
    Shape.RESOURCES: st.fixed_dictionaries(
        {}, optional={"requests": st.dictionaries(_TEXT, _TEXT, max_size=1)}
    ),
    Shape.ANY: st.integers(0, 2),
}


def _place(place: Place) -> st.SearchStrategy[dict[str, Any]]:
    rows = [row for row in ROWS if row.place == place]
    fields = {row.field: st.none() | _SHAPES[row.shape] for row in rows}
    return st.fixed_dictionaries({}, optional=fields)


LAYERS = st.builds(
    Layer,
    _place(Place.METADATA),
    _place(Place.POD),
    _place(Place.SERVER),
    st.lists(st.fixed_dictionaries({"name": _TEXT}), max_size=2).map(tuple),
)


@settings(max_examples=40)
@given(LAYERS, LAYERS, LAYERS)
def test_layers_can_be_grouped_in_any_way(a: Layer, b: Layer, c: Layer) -> None:
    """Over is associative."""
    assert over(over(a, b), c) == over(a, over(b, c))


@settings(max_examples=40)
@given(LAYERS, LAYERS)
def test_no_item_of_a_list_is_lost_or_moved(a: Layer, b: Layer) -> None:
    """Lists concatenate class then engine, whatever is in them."""
    for row in ROWS:
        if row.merge == Merge.CONCAT:
            below = a.at(row.place).get(row.field) or []
            above = b.at(row.place).get(row.field) or []
            assert (over(a, b).at(row.place).get(row.field) or []) == below + above
