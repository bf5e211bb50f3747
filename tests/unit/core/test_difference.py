"""Merge patches from one document to another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.core import names
from boilerhouse.core.difference import bound, difference, finalizers_patch, status_patch
from boilerhouse.embedded.fields.patch import merge
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.seen import WorkloadSeen

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


def test_a_patch_is_bound_to_what_was_seen() -> None:
    """By UID and version, whatever else it says of the metadata."""
    seen = WorkloadSeen("web", "uid-1", "7", 1, WorkloadStatus())
    as_seen = {"uid": "uid-1", "resourceVersion": "7"}
    assert bound(seen, {"status": {"phase": "Ready"}}) == {
        "metadata": as_seen,
        "status": {"phase": "Ready"},
    }
    assert bound(seen, {"metadata": {"finalizers": None, "uid": "other"}}) == {
        "metadata": {"finalizers": None, **as_seen}
    }


def test_only_our_finalizer_comes_and_goes() -> None:
    """Those of others stay."""
    put = finalizers_patch(("theirs",), held=True)
    assert put == {"metadata": {"finalizers": ["theirs", names.FINALIZER]}}
    taken = finalizers_patch(("theirs", names.FINALIZER), held=False)
    assert taken == {"metadata": {"finalizers": ["theirs"]}}
    none_left = finalizers_patch((names.FINALIZER,), held=False)
    assert none_left == {"metadata": {"finalizers": None}}


def test_a_status_is_its_difference() -> None:
    """What stays is not sent; a phase that was a default is."""
    patch = status_patch(WorkloadStatus(), WorkloadStatus(phase=WorkloadPhase.READY, detail="fine"))
    assert patch == {"status": {"phase": "Ready", "detail": "fine"}}
