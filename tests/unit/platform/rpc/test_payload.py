"""Bodies of the protocol, as both ends read them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from boilerhouse.platform.rpc.payload import Payload


@dataclass(frozen=True, slots=True)
class Part(Payload):
    made_at: str


@dataclass(frozen=True, slots=True)
class Whole(Payload):
    parts: tuple[Part, ...]
    names: tuple[str, ...] = ()
    seen_by: int = 0


def test_fields_are_spelled_as_on_the_wire() -> None:
    """Names are in camelCase, tuples are lists, and what is nested is spelled likewise."""
    whole = Whole((Part("now"),), ("a", "b"), 7)
    expected = {"parts": [{"madeAt": "now"}], "names": ["a", "b"], "seenBy": 7}
    assert whole.plain() == expected
    assert Part.decode(Part("now").encode()) == Part("now")


def test_other_versions_are_understood() -> None:
    """A newer sender's fields are ignored; an older one may leave out what has a default."""
    assert Whole.of({"parts": [], "names": ["a"], "later": 1}) == Whole((), ("a",))
    with pytest.raises(KeyError):
        Whole.of({"names": ["a"]})
    with pytest.raises(ValueError, match="not an object"):
        Whole.decode(b"[]")
