"""Merge patches from one document to another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.core.difference import difference
from boilerhouse.embedded.fields.patch import merge

_leaves = st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
_documents = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        _leaves,
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@given(_documents, _documents)
def test_the_patch_makes_one_of_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Applied to the old document it gives the new one, and is empty only if they are the same."""
    patch = difference(old, new)
    assert merge(old, patch) == new
    assert (patch == {}) == (old == new)
