"""Merge and JSON patches give what a real kube-apiserver gave.

`patch_cases.json` was recorded from a real server: random patches, the object before, and either
the object after or the status code of the refusal.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.verbs import patch
from boilerhouse.kube.status import ApiError, BadRequest, Invalid, TooLarge

CASES = json.loads(Path(__file__).with_name("patch_cases.json").read_text())


def applied(case: dict[str, Any]) -> Any:
    body = {"spec": case["before"]}
    apply = patch.json_patch if case["kind"] == "json" else patch.merge
    return apply(body, case["patch"])["spec"]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_recorded(case: dict[str, Any]) -> None:
    """A recorded patch has the recorded outcome and leaves its inputs as they were."""
    untouched = deepcopy(case)
    if "error" in case:
        with pytest.raises(ApiError) as raised:
            applied(case)
        assert raised.value.status_code == case["error"]
    else:
        assert json.dumps(applied(case), sort_keys=True) == json.dumps(
            case["after"], sort_keys=True
        )
    assert case == untouched


def test_result_shares_nothing() -> None:
    """What comes out may be changed in place without touching what went in."""
    body = {"keep": {"list": [{"a": 1}]}, "gone": 1}
    change = {"gone": None, "new": {"list": [{"b": 2}]}}
    result = patch.merge(body, change)
    result["keep"]["list"][0]["a"] = 9
    result["new"]["list"][0]["b"] = 9
    assert body == {"keep": {"list": [{"a": 1}]}, "gone": 1}
    assert change == {"gone": None, "new": {"list": [{"b": 2}]}}


@pytest.mark.parametrize("bad", [None, [], "x", 1, True])
def test_merge_patch_is_an_object(bad: object) -> None:
    """A merge patch that is no object is a bad request."""
    with pytest.raises(BadRequest):
        patch.merge({}, bad)


@pytest.mark.parametrize("bad", [{}, "x", [1], [[]], [{"op": "add", "path": 5}], [{"op": 1}]])
def test_undecodable_json_patch(bad: object) -> None:
    """A JSON patch of the wrong shape is a bad request."""
    with pytest.raises(BadRequest):
        patch.json_patch({}, bad)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": 1.0},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/x/y", "value": None},
        {"op": "remove", "path": "/x"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "move", "from": "/x", "path": "/y"},
        {"op": "copy", "path": "/y"},
        {"op": "Add", "path": "/y", "value": 1},
        {"path": "/y"},
        {"op": "add", "value": 1},
    ],
)
def test_inapplicable_operation(operation: dict[str, Any]) -> None:
    """An operation that does not fit the object is Invalid, and says which one it was."""
    with pytest.raises(Invalid, match="operation 1 "):
        patch.json_patch(
            {"a": 1, "list": [1, 2]}, [{"op": "test", "path": "/a", "value": 1}, operation]
        )


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ({"op": "replace", "path": "/new", "value": 1}, {"a": 1, "l": [1, 2], "new": 1}),
        ({"op": "add", "path": "/new"}, {"a": 1, "l": [1, 2], "new": None}),
        ({"op": "copy", "from": "/x", "path": "/new"}, {"a": 1, "l": [1, 2], "new": None}),
        ({"op": "test", "path": "/x", "value": None}, {"a": 1, "l": [1, 2]}),
        ({"op": "add", "path": "/l/-", "value": 3}, {"a": 1, "l": [1, 2, 3]}),
        ({"op": "add", "path": "/l/-1", "value": 3}, {"a": 1, "l": [1, 2, 3]}),
        ({"op": "add", "path": "/l/2", "value": 3}, {"a": 1, "l": [1, 2, 3]}),
        ({"op": "remove", "path": "/l/-1"}, {"a": 1, "l": [1]}),
        ({"op": "replace", "path": "", "value": {"b": 1}}, {"b": 1}),
        ({"op": "add", "path": "/a~1b~0c", "value": 1}, {"a": 1, "l": [1, 2], "a/b~c": 1}),
    ],
)
def test_lenient_as_the_real_server(operation: dict[str, Any], after: dict[str, Any]) -> None:
    """Where a real server is more lenient than the RFC, so are we."""
    assert patch.json_patch({"a": 1, "l": [1, 2]}, [operation]) == after


def test_all_or_nothing() -> None:
    """A failing operation leaves the object as it was, whatever came before it."""
    body = {"a": {"b": 1}}
    with pytest.raises(Invalid):
        patch.json_patch(
            body,
            [
                {"op": "replace", "path": "/a/b", "value": 2},
                {"op": "test", "path": "/a/b", "value": 1},
            ],
        )
    assert body == {"a": {"b": 1}}


def test_replacing_everything_by_no_object() -> None:
    """A patch that leaves something else than an object is refused."""
    with pytest.raises(Invalid):
        patch.json_patch({}, [{"op": "replace", "path": "", "value": 1}])


def test_limit_of_operations() -> None:
    """Ten thousand operations are accepted, one more is too large."""
    test = {"op": "test", "path": "/a", "value": 1}
    assert patch.json_patch({"a": 1}, [test] * 10_000) == {"a": 1}
    with pytest.raises(TooLarge, match="10000, got 10001"):
        patch.json_patch({"a": 1}, [test] * 10_001)


def test_copies_cannot_explode() -> None:
    """Doubling the object again and again is refused before it fills the memory."""
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{i}"} for i in range(40)]
    with pytest.raises(TooLarge):
        patch.json_patch({"a": {}}, doubling)


def test_depth_is_bounded() -> None:
    """Neither a patch nor what operations build step by step may nest without end."""
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nested deeper"):
        patch.merge({}, deep)
    with pytest.raises(BadRequest, match="nested deeper"):
        patch.merge({}, {"list": [[deep]]})
    with pytest.raises(BadRequest, match="nested deeper"):
        patch.strategic({}, deep, {})
    digging = [{"op": "add", "path": "/a" * i, "value": {}} for i in range(1, 300)]
    with pytest.raises(BadRequest, match="nested deeper"):
        patch.json_patch({}, digging)


def test_moving_and_copying_do_not_dig_deeper() -> None:
    """What is moved or copied counts with its depth where it arrives."""
    body: dict[str, Any] = {"deep": 1, "here": {}}
    for _ in range(150):
        body["deep"] = {"a": body["deep"]}
    for _ in range(100):
        body["here"] = {"a": body["here"]}
    for operation in ("move", "copy"):
        with pytest.raises(BadRequest, match="nested deeper"):
            patch.json_patch(
                body, [{"op": operation, "from": "/deep", "path": "/here" + "/a" * 100 + "/b"}]
            )


@pytest.mark.parametrize(
    ("into", "change"),
    [
        (patch.merge_into, {"new": {"list": [{"b": 2}]}, "gone": None}),
        (
            patch.patch_into,
            [
                {"op": "add", "path": "/new", "value": {"list": [{"b": 2}]}},
                {"op": "remove", "path": "/gone"},
            ],
        ),
        (
            lambda body, change: patch.strategic_into(body, change, {}),
            {"new": {"list": [{"b": 2}]}, "gone": None},
        ),
    ],
    ids=["merge", "json", "strategic"],
)
def test_in_place(into: Any, change: Any) -> None:
    """On a body of one's own the outcome is the same, and what a patch does not name is left."""
    kept = {"list": [{"a": 1}]}
    before = deepcopy(change)
    result = into({"keep": kept, "gone": 1}, change)
    assert result == {"keep": {"list": [{"a": 1}]}, "new": {"list": [{"b": 2}]}}
    assert result["keep"] is kept
    result["new"]["list"][0]["b"] = 9
    assert change == before
