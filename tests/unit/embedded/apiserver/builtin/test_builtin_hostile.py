"""Whatever a client sends, a built-in kind stores it or refuses it: it never breaks."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.request.table import table
from boilerhouse.embedded.apiserver.schemas.schema import NOTHING, Baseline
from boilerhouse.embedded.apiserver.verbs import preparing
from boilerhouse.platform.kube.status import ApiError
from tests.unit.embedded.apiserver.builtin.builtin_cases import CASES

KINDS = {(kind.api_version, kind.kind): kind for kind in builtin.kinds()}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ODD: list[Any] = [
    None, "", "x", "1", "-1", 0, 1, -1, 2**40, 1.5, True, False, [], {}, [None], [1], ["x"], [{}],
    [[]], {"a": None}, {"a": 1}, {"a": "b"}, {"a": {}}, "None", "1Gi", "2026-01-01T00:00:00Z", "é",
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


def spoiled(body: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    result = copy.deepcopy(body)
    for _ in range(dice.randint(1, 2)):
        top = [(result, key) for key in result if key not in ("apiVersion", "kind", "metadata")]
        below = [place for box, key in top if isinstance(box[key], dict | list)
                 for place in places(box[key])]  # fmt: skip
        found = top + below
        if not found:
            return result
        container, key = dice.choice(found)
        container[key] = copy.deepcopy(dice.choice(ODD))
    return result


def live_through(body: dict[str, Any], dice: random.Random) -> bool:
    """Create, change, print: return whether the object was accepted."""
    kind = KINDS[body["apiVersion"], body["kind"]]
    try:
        kind.schema.prune(body)
        preparing.prepare_new(kind, body, "2026-01-01T00:00:00Z")
        preparing.default(kind, body)
        preparing.check_new(kind, body)
    except ApiError:
        return False
    table(kind, [body], now=NOW)
    for read in kind.selectable.values():
        assert isinstance(read(body), str)
    part: preparing.Part = "status" if kind.status and dice.random() < 0.5 else ""
    sent = spoiled(body, dice) | {"metadata": copy.deepcopy(body["metadata"])}
    plain = changed(kind, copy.deepcopy(sent), copy.deepcopy(body), part, NOTHING)
    before = copy.deepcopy(body)
    assert changed(kind, sharing(sent, body), body, part, body) == plain
    assert body == before
    if isinstance(plain, dict):
        table(kind, [plain], now=NOW)
    return True


def changed(
    kind: Kind, sent: dict[str, Any], old: dict[str, Any], part: preparing.Part, baseline: Baseline
) -> dict[str, Any] | str:
    """Return what the object becomes, or what is said of it."""
    try:
        kind.schema.prune(sent, baseline)
        result = preparing.prepare_change(kind, sent, old, part, baseline)
        preparing.check_change(kind, result, old, part, baseline)
    except ApiError as error:
        return str(error)
    return result


def sharing(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Return the same as a patch would have made it: what is equal in maps is the old object."""
    result: dict[str, Any] = {}
    for key, value in new.items():
        before = old.get(key)
        if key != "metadata" and json.dumps(value) == json.dumps(before):
            result[key] = before
        elif isinstance(value, dict) and isinstance(before, dict):
            result[key] = sharing(value, before)
        else:
            result[key] = value
    return result


@pytest.mark.parametrize("seed", range(20))
def test_spoiled_objects(seed: int) -> None:
    """Odd values in odd places are a refusal at worst, at birth, on change and in print."""
    dice = random.Random(seed)
    accepted = 0
    for case in CASES:
        accepted += live_through(spoiled(case.body, dice), dice)
    assert 0 < accepted < len(CASES)


def test_same_input_same_object() -> None:
    """Settling and defaulting what was stored changes nothing: an update without change is one."""
    for case in CASES:
        body = copy.deepcopy(case.body)
        kind = KINDS[body["apiVersion"], body["kind"]]
        try:
            kind.schema.prune(body)
            preparing.prepare_new(kind, body, "2026-01-01T00:00:00Z")
            preparing.default(kind, body)
            preparing.check_new(kind, body)
        except ApiError:
            continue
        again = copy.deepcopy(body)
        assert kind.schema.prune(again) == [], case.name
        again = preparing.prepare_change(kind, again, copy.deepcopy(body), "")
        preparing.check_change(kind, again, body, "")
        assert preparing.same(again, body), case.name
