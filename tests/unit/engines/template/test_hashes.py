"""Hashes depend on what is said, not on how it is spelled."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from boilerhouse.engines.template.hashes import LENGTH, canonical, digest

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(list(value))}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=40)
@given(_JSON)
def test_the_order_of_keys_does_not_matter(value: Any) -> None:
    assert digest(value) == digest(reordered(value))


@settings(max_examples=40)
@given(_JSON, _JSON)
def test_other_values_have_other_hashes(a: Any, b: Any) -> None:
    """Values that differ once spelled differ in their hash, unless both say nothing."""
    if canonical(a) != canonical(b):
        assert digest(a) != digest(b) or digest(a) == digest(b) == ""


def test_the_order_of_lists_matters() -> None:
    assert digest([1, 2]) != digest([2, 1])


def test_what_says_nothing_has_no_hash() -> None:
    nothing: list[Any] = [None, {}, [], (), ""]
    assert [digest(value) for value in nothing] == [""] * 5
    assert digest(0) and digest(False) and digest({"a": {}})


def test_sixteen_hexadecimal_digits() -> None:
    """The first of the SHA-256 of the canonical JSON: a contract, other programs may compute it."""
    found = digest({"b": 1.0, "a": ["ä"]})
    assert canonical({"b": 1.0, "a": ["ä"]}) == '{"a":["ä"],"b":1}'
    assert len(found) == LENGTH and set(found) <= set(string.hexdigits.lower())
    assert digest({"a": ["ä"], "b": 1}) == found
