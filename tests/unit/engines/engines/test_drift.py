"""What a generation is made of, and which part of it changed."""

from __future__ import annotations

import pytest

from boilerhouse.engines.engines.drift import changed, inputs, read, written
from boilerhouse.engines.template.merge import Layer


def test_each_input_has_a_hash_of_its_own() -> None:
    """What says nothing has none, so that a new kind of input changes nothing by itself."""
    found = dict(inputs({"replicas": 2, "config": ""}, Layer(pod={"tolerations": [{"key": "k"}]})))
    assert set(found) == {"replicas", "template.spec.tolerations"}


def test_sidecars_are_an_input() -> None:
    found = inputs({}, Layer(others=({"name": "side"},)))
    assert [name for name, _ in found] == ["template.spec.containers"]


@pytest.mark.parametrize("cpu", [1, "1", "1000m", "1.0"])
def test_quantities_count_by_their_number(cpu: object) -> None:
    """Another spelling is no change."""
    one = Layer(server={"resources": {"requests": {"cpu": "1"}, "limits": {}}})
    other = Layer(server={"resources": {"requests": {"cpu": cpu}}})
    assert inputs({}, one) == inputs({}, other)


def test_claims_are_compared_as_they_are() -> None:
    one = Layer(server={"resources": {"claims": [{"name": "gpu"}]}})
    other = Layer(server={"resources": {"claims": [{"name": "tpu"}]}})
    assert inputs({}, one) != inputs({}, other)


def test_changes_are_named() -> None:
    """Added, removed and other values; many are counted."""
    assert changed([("a", "1"), ("b", "1"), ("c", "1")], [("b", "2"), ("c", "1"), ("d", "1")]) == (
        "a, b, d"
    )
    many = [(name, "1") for name in "abcdefgh"]
    assert changed([("z", "1")], [*many, ("z", "1")]) == "a, b, c, d, e and 3 more"


def test_without_a_stamp_nothing_can_be_compared() -> None:
    assert changed([], [("a", "1")]) == "what it is made of"
    assert changed([("a", "1")], [("a", "1")]) == "what it is made of"


def test_inputs_survive_an_annotation() -> None:
    stamp = (("a", "1"), ("b", "2"))
    assert read(written(stamp)) == stamp


@pytest.mark.parametrize("text", [None, "", "{", "[]", "1"])
def test_what_is_no_stamp_says_nothing(text: str | None) -> None:
    assert read(text) == ()
