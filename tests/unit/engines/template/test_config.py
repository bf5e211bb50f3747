"""Custom configuration: merged deeply, and without what the operator owns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from boilerhouse.engines.profile import FIREBOLT
from boilerhouse.engines.template.config import merged, replaced, stripped

OWNED = FIREBOLT.config.owned_paths


def test_objects_merge_and_everything_else_is_replaced() -> None:
    """Lists too: the engine's list is the list."""
    lower = {"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": {"z": 1}}
    upper = {"a": {"y": [3]}, "b": {"n": 1}, "c": 2, "d": None}
    assert merged(lower, upper) == {"a": {"x": 1, "y": [3]}, "b": {"n": 1}, "c": 2, "d": None}


@pytest.mark.parametrize("path", OWNED)
def test_what_the_operator_owns_is_left_out_and_listed(path: str) -> None:
    custom: Any = "mine"
    for key in reversed(path.split(".")):
        custom = {key: custom}
    assert stripped(custom, OWNED) == ({}, (path,))


def test_the_rest_of_a_section_stays() -> None:
    rest, gone = stripped({"instance": {"id": "x", "name": "y"}, "logging": {"a": 1}}, OWNED)
    assert rest == {"instance": {"name": "y"}, "logging": {"a": 1}}
    assert gone == ("instance.id",)


def test_a_section_that_is_no_object_is_left_out() -> None:
    """It would hide what the operator puts there."""
    assert stripped({"instance": "x", "engine": []}, OWNED) == ({}, ("instance", "engine"))


def test_an_empty_section_leaves_no_trace() -> None:
    assert stripped({"instance": {}, "engine": {"id": 1}}, OWNED) == ({}, ("engine.id",))


def test_what_users_wrote_stays_as_it_is() -> None:
    """The input is not changed: it belongs to a cache."""
    custom = {"instance": {"id": "x", "name": "y"}}
    stripped(custom, OWNED)
    assert custom == {"instance": {"id": "x", "name": "y"}}


def test_values_are_put_where_they_are_named() -> None:
    base = {"a": "$(x)", "b": ["$(x)", "$(y)", 1], "c": {"d": "about $(x)"}}
    assert replaced(base, {"$(x)": [1, 2]}) == {
        "a": [1, 2],
        "b": [[1, 2], "$(y)", 1],
        "c": {"d": "about $(x)"},
    }


_JSON = st.recursive(
    st.integers(0, 2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
)
_BODY = st.dictionaries(st.sampled_from("abc"), _JSON, max_size=3)


@settings(max_examples=40)
@given(_BODY, _BODY, _BODY)
def test_merging_is_associative_where_objects_stay_objects(
    a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]
) -> None:
    """Three layers give one result, unless the middle one turns an object into a scalar."""
    assume(_keeps_objects(a, b) and _keeps_objects(b, c) and _keeps_objects(merged(a, b), c))
    assert merged(merged(a, b), c) == merged(a, merged(b, c))


def _keeps_objects(lower: dict[str, Any], upper: dict[str, Any]) -> bool:
    return all(
        isinstance(lower[key], dict) == isinstance(value, dict)
        and (not isinstance(value, dict) or _keeps_objects(lower[key], value))
        for key, value in upper.items()
        if key in lower
    )
