"""msgspec's messages in words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct

from boilerhouse.core.mistakes import in_words


class Colour(StrEnum):
    RED = "red"


class Thing(Struct, forbid_unknown_fields=True):
    size: int
    colour: Colour = Colour.RED
    names: list[str] | None = None


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (str | None, [], "must be a string or null, not a list"),
        (int, "1", "must be an integer, not a string"),
        (float, {}, "must be a number, not an object"),
        (bool, 1, "must be true or false, not an integer"),
        (dict[str, int], {"a": "x"}, "must be an integer, not a string"),
        (Annotated[str, Meta(pattern="^/")], "work", "must be an absolute path"),
        (Annotated[str, Meta(max_length=2)], "abc", "must have at most 2 characters"),
        (Annotated[list[int], Meta(min_length=1)], [], "must have at least 1 items"),
        (Annotated[int, Meta(ge=1)], 0, "must be at least 1"),
        (Annotated[float, Meta(gt=0)], 0, "must be more than 0.0"),
        (Thing, {}, "the field 'size' is missing"),
        (Thing, {"size": 1, "siez": 2}, "unknown field 'siez'"),
        (Thing, {"size": 1.5}, "size: must be an integer, not a number"),
        (Thing, {"size": 1, "names": [1]}, "names[0]: must be a string, not an integer"),
        (Thing, {"size": 1, "colour": "blue"}, "colour: Invalid enum value 'blue'"),
    ],
)
def test_a_mistake_in_words(kind: Any, value: object, words: str) -> None:
    """What it must be and what it is, where it is; what has no better words stays as it was."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, kind)
    assert in_words(str(caught.value), "an absolute path") == words


def test_a_pattern_without_a_meaning_is_shown() -> None:
    """It is better than nothing."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert("x", Annotated[str, Meta(pattern="^a")])
    assert in_words(str(caught.value)) == "must match the pattern '^a'"
