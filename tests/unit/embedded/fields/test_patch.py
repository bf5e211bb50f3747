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

from boilerhouse.embedded.fields import patch
from boilerhouse.platform.kube.status import ApiError, BadRequest, Invalid, TooLarge

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


@pytest.mark.slow
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


BODY: dict[str, Any] = {
    "keep": {"list": [{"a": 1}]},
    "into": {"list": [{"a": 1}], "map": {"a": {}}},
    "gone": 1,
}
MERGE: dict[str, Any] = {
    "gone": None,
    "new": {"list": [{"b": 2}]},
    "into": {"map": {"a": {"b": 2}}},
}
OPERATIONS = [
    {"op": "remove", "path": "/gone"},
    {"op": "add", "path": "/new", "value": {"list": [{"b": 2}]}},
    {"op": "add", "path": "/into/map/a/b", "value": 2},
]
OUTCOME: dict[str, Any] = {
    "keep": {"list": [{"a": 1}]},
    "into": {"list": [{"a": 1}], "map": {"a": {"b": 2}}},
    "new": {"list": [{"b": 2}]},
}


@pytest.mark.parametrize(
    ("apply", "change"),
    [(patch.merge, MERGE), (patch.json_patch, OPERATIONS)],
    ids=["merge", "json"],
)
def test_what_is_left_alone_is_the_very_object_it_was(apply: Any, change: Any) -> None:
    """A patch copies what it changes, leaves both its inputs as they were, and shares the rest."""
    before, asked = deepcopy(BODY), deepcopy(change)
    result = apply(before, change)
    assert result == OUTCOME
    assert result["keep"] is before["keep"]
    assert result["into"]["list"] is before["into"]["list"]
    assert before == BODY
    result["new"]["list"][0]["b"] = 9
    assert change == asked


@pytest.mark.parametrize(
    "change",
    [
        {"new": {"map": {"a": [{"b": 2}, [3]]}}},
        {"into": {"map": {"a": {"b": 2}}, "list": [{"b": 2}]}},
        {"into": [{"b": 2}], "keep": "text"},
        {"gone": {"back": True}, "number": 1, "no": False, "text": "null"},
    ],
)
def test_a_merge_patch_is_the_same_however_nulls_are_looked_for(change: dict[str, Any]) -> None:
    """A patch that is known to have no nulls is merged as one that may have some."""
    before = deepcopy(BODY)
    expected = patch.merge(before, deepcopy(change))
    assert patch.merge(before, deepcopy(change), nulls=False) == expected
    assert before == BODY


def test_a_strategic_patch_shares_nothing() -> None:
    """What comes out of a strategic merge may be changed anywhere."""
    before, change = deepcopy(BODY), deepcopy(MERGE)
    result = patch.strategic(before, change, {})
    assert result == OUTCOME
    for inside in (result["keep"], result["into"], result["new"]):
        inside["list"][0].clear()
    assert (before, change) == (BODY, MERGE)


@pytest.mark.parametrize("operations", [[], [{"op": "test", "path": "/gone", "value": 1}]])
def test_a_patch_that_changes_nothing_gives_a_body_of_its_own(operations: list[Any]) -> None:
    """Fields may be set in what comes out of any patch."""
    before = deepcopy(BODY)
    for result in (patch.json_patch(before, operations), patch.merge(before, {})):
        result["kind"] = "Other"
    assert before == BODY


def test_a_list_that_is_changed_is_copied_whole() -> None:
    """Items of a changed list may be written to, those of a list that is left alone are shared."""
    before = deepcopy(BODY)
    result = patch.json_patch(before, [{"op": "add", "path": "/into/list/-", "value": {}}])
    result["into"]["list"][0]["a"] = 9
    assert before == BODY
    assert result["keep"]["list"] is before["keep"]["list"]


def test_moved_and_copied_values_are_their_own() -> None:
    """What is moved or copied and then changed does not change what it came from."""
    before = deepcopy(BODY)
    result = patch.json_patch(
        before,
        [
            {"op": "copy", "from": "/keep", "path": "/copy"},
            {"op": "move", "from": "/into", "path": "/moved"},
            {"op": "add", "path": "/copy/list/0/a", "value": 2},
            {"op": "add", "path": "/moved/list/0/a", "value": 3},
            {"op": "remove", "path": "/moved/map/a"},
        ],
    )
    assert result == {
        "keep": {"list": [{"a": 1}]},
        "copy": {"list": [{"a": 2}]},
        "moved": {"list": [{"a": 3}], "map": {}},
        "gone": 1,
    }
    assert before == BODY
