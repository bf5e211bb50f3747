"""Strategic merge patches give what a real kube-apiserver gave.

`strategic_cases.json` was recorded from a real server: random patches with directives of every
kind, applied to the Pod template and the finalizers of a StatefulSet.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.fields.patch import Merging, strategic
from boilerhouse.platform.kube.status import BadRequest

CASES = json.loads(Path(__file__).with_name("strategic_cases.json").read_text())

POD = {
    "containers": Merging(
        True, "name", {"env": Merging(True, "name"), "ports": Merging(True, "containerPort")}
    ),
    "volumes": Merging(True, "name"),
    "imagePullSecrets": Merging(True, "name"),
}
TABLE = {
    "metadata": Merging(fields={"finalizers": Merging(True)}),
    "spec": Merging(fields={"template": Merging(fields={"spec": Merging(fields=POD)})}),
}


OPTIONAL = {"labels", "finalizers", "metadata", "args", "env", "ports", "volumes"} | {
    "imagePullSecrets",
    "tolerations",
    "securityContext",
    "value",
}


def settled(value: Any) -> Any:
    """Drop empty members, as decoding does after every patch, and add the one default in play."""
    if isinstance(value, list):
        return [settled(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: settled(item) for key, item in value.items()}
    for source in ("configMap", "secret"):
        if source in kept:
            kept[source].setdefault("defaultMode", 420)
    for port in kept.get("ports", ()):
        port.setdefault("protocol", "TCP")
    if kept.keys() == {"name"} and "volumes" not in value:
        return kept
    return {k: v for k, v in kept.items() if v or k not in OPTIONAL}


def with_sources(body: dict[str, Any]) -> dict[str, Any]:
    """A volume without a source is an emptyDir, by the server's defaulting."""
    body = settled(body)
    for volume in body["spec"]["template"]["spec"].get("volumes", ()):
        if volume.keys() == {"name"}:
            volume["emptyDir"] = {}
    return body


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_recorded(case: dict[str, Any]) -> None:
    """A recorded patch has the recorded outcome and leaves its inputs as they were."""
    untouched = deepcopy(case)
    after = strategic(case["before"], case["patch"], TABLE)
    assert with_sources(after) == with_sources(case["after"])
    assert case == untouched


def names(body: dict[str, Any]) -> list[str]:
    return [item["name"] for item in body["list"]]


LIST = {"list": Merging(True, "name", {"inner": Merging(True)})}
BEFORE = {"list": [{"name": "a"}, {"name": "b", "x": 1, "inner": ["p"]}, {"name": "c"}]}


def test_elements_merge_by_key() -> None:
    """An element with a known key is merged, one with a new key comes first, the rest stays."""
    after = strategic(BEFORE, {"list": [{"name": "b", "y": 2}, {"name": "n", "z": None}]}, LIST)
    assert after["list"] == [
        {"name": "a"},
        {"name": "b", "x": 1, "inner": ["p"], "y": 2},
        {"name": "n"},
        {"name": "c"},
    ]


def test_delete_and_replace_elements() -> None:
    """`$patch: delete` removes one element, an element `$patch: replace` replaces the list."""
    deleted = strategic(BEFORE, {"list": [{"name": "b", "$patch": "delete"}]}, LIST)
    assert names(deleted) == ["a", "c"]
    replaced = strategic(BEFORE, {"list": [{"$patch": "replace"}, {"name": "b"}]}, LIST)
    assert replaced == {"list": [{"name": "b"}]}


def test_set_element_order() -> None:
    """Named elements follow the order asked for; what only the server has keeps its place."""
    order = {"$setElementOrder/list": [{"name": "c"}, {"name": "a"}]}
    assert names(strategic(BEFORE, order, LIST)) == ["b", "c", "a"]


def test_sets_of_strings() -> None:
    """Strings are added to a merging list once and deleted by their directive."""
    table = {"f": Merging(True)}
    assert strategic({"f": ["a", "b"]}, {"f": ["b", "c"]}, table) == {"f": ["a", "b", "c"]}
    assert strategic({"f": ["a", "b"]}, {"$deleteFromPrimitiveList/f": ["a", "z"]}, table) == {
        "f": ["b"]
    }


def test_atomic_list() -> None:
    """A list without a merge strategy is replaced."""
    assert strategic({"args": ["a"]}, {"args": ["b"]}, {}) == {"args": ["b"]}


def test_map_directives() -> None:
    """A map can be replaced, emptied, or cut down to the keys it retains."""
    before = {"m": {"a": 1, "b": 2}}
    assert strategic(before, {"m": {"$patch": "replace", "c": 3}}, {}) == {"m": {"c": 3}}
    assert strategic(before, {"m": {"$patch": "delete"}}, {}) == {"m": {}}
    retained = strategic(before, {"m": {"$retainKeys": ["b", "c"], "c": 3}}, {})
    assert retained == {"m": {"b": 2, "c": 3}}


def test_new_values_carry_no_directives() -> None:
    """What is new to the object is taken without directives and nulls."""
    fresh = {"name": "n", "$retainKeys": ["name"], "inner": [{"$patch": "delete"}], "x": None}
    assert strategic({}, {"list": [fresh]}, LIST) == {"list": [{"name": "n", "inner": []}]}


def test_null_removes() -> None:
    """Null removes a member; a null patch changes nothing."""
    assert strategic({"a": 1, "b": 2}, {"a": None, "x": None}, {}) == {"b": 2}
    assert strategic({"a": 1}, None, {}) == {"a": 1}


@pytest.mark.parametrize(
    "bad",
    [
        [],
        "x",
        {"list": {"$patch": "bogus"}, "m": {"$patch": "bogus"}},
        {"list": [{"x": 1}]},
        {"list": ["x"]},
        {"list": [["x"]]},
        {"list": [None]},
        {"list": [{"name": "a", "$patch": "merge"}]},
        {"list": [{"$patch": "delete"}]},
        {"list": [{"name": {"a": 1}}]},
        {"$retainKeys": "list"},
        {"$retainKeys": ["other"], "list": []},
        {"$setElementOrder/list": "x"},
        {"$setElementOrder/list": [{"x": 1}]},
        {"$setElementOrder/list": [{"name": "a"}], "list": [{"name": "b"}]},
        {"set": [{"a": 1}]},
    ],
)
def test_bad_patches(bad: object) -> None:
    """A patch that makes no sense for this object is a bad request, never a crash."""
    table = {**LIST, "set": Merging(True)}
    with pytest.raises(BadRequest):
        strategic({**BEFORE, "m": {"a": 1}, "set": ["a"]}, bad, table)
