"""One rule, two evaluators, one verdict; and every problem of a spec is listed."""

from __future__ import annotations

from typing import Annotated, ClassVar

import cel
import msgspec
import pytest
from msgspec import Meta, Struct, field

from boilerhouse.core.problems import problems
from boilerhouse.core.rules import Rule, exactly_one_of, immutable, rules_of
from boilerhouse.core.schema import UNIQUE, FreeForm, keyed_by


class Choice(Struct, frozen=True, rename="camel"):
    RULES: ClassVar = (exactly_one_of("one", "otherOne", "from"),)

    one: str | None = None
    other_one: str | None = None
    from_: str | None = field(default=None, name="from")


@pytest.mark.parametrize(
    ("raw", "holds"),
    [
        ({}, False),
        ({"one": "a"}, True),
        ({"otherOne": ""}, True),
        ({"from": "b"}, True),
        ({"one": "a", "otherOne": "b"}, False),
        ({"one": "a", "otherOne": "b", "from": "c"}, False),
    ],
)
def test_exactly_one_of(raw: dict[str, str], holds: bool) -> None:
    """Neither none nor two; CEL and Python say so alike."""
    (rule,) = rules_of(Choice)
    assert rule.holds is not None
    assert rule.holds(msgspec.convert(raw, Choice)) is holds
    assert cel.evaluate(rule.cel, {"self": raw}) is holds


def test_immutable_is_for_the_api_server_alone() -> None:
    """Only who knows the former value can compare with it."""
    rule = immutable("it")
    assert rule.holds is None
    assert rule.validation() == {"rule": "self == oldSelf", "message": "it cannot be changed"}


class Item(Struct, frozen=True, rename="camel"):
    name: str
    size: Annotated[int, Meta(ge=1)] = 1


class Box(Struct, frozen=True, rename="camel"):
    RULES: ClassVar = (
        Rule("true", "a box has a lid or a bottom", lambda box: box.lid or box.bottom),
        Rule("true", "no lid on a bottom", lambda box: not (box.lid and box.bottom), field="lid"),
    )

    label: Annotated[str, Meta(max_length=5)]
    lid: bool = False
    bottom: bool = False
    items: Annotated[tuple[Item, ...], Meta(max_length=2), keyed_by("name")] = ()
    marks: Annotated[tuple[str, ...], UNIQUE] = ()
    notes: dict[str, str] = field(default_factory=dict)
    free: FreeForm = field(default_factory=dict)
    choice: Choice | None = None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"label": "a", "lid": True}, []),
        ({"label": "a", "lid": True, "free": {"x": [1, None]}, "unknown": 1}, []),
        ({"label": "a", "lid": True, "choice": None}, []),
        ({}, ["box.label: required"]),
        ([], ["box: must be an object, not a list"]),
        ({"label": "a"}, ["box: a box has a lid or a bottom"]),
        ({"label": "a", "lid": True, "bottom": True}, ["box.lid: no lid on a bottom"]),
        (
            {"label": "too long", "items": [{"size": 0}, 3], "notes": {"a": 1}, "choice": {}},
            [
                "box.label: must have at most 5 characters",
                "box.items[0].name: required",
                "box.items[0].size: must be at least 1",
                "box.items[1]: must be an object, not an integer",
                "box.notes.a: must be a string, not an integer",
                "box.choice: exactly one of one and otherOne and from must be set",
            ],
        ),
        (
            {"label": "a", "lid": True, "items": [{"name": name} for name in "abc"]},
            ["box.items: must have at most 2 items"],
        ),
        (
            {"label": "a", "lid": True, "items": [{"name": "a"}, {"name": "a", "size": 2}]},
            ["box.items[1]: duplicate item"],
        ),
        ({"label": "a", "lid": True, "marks": ["x", "y", "x"]}, ["box.marks[2]: duplicate item"]),
    ],
)
def test_all_problems_are_listed(raw: object, expected: list[str]) -> None:
    """Every mistake gets a sentence at its own field; a sound value gets none."""
    assert problems(Box, raw, "box") == expected
