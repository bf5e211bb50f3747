"""Versions of an object share what did not change, and none of them ever changes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.storage.store import Key, Stored
from boilerhouse.platform.kube.wire import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.contract.driver import Api
from tests.unit.embedded.apiserver.builtin.builtin_cases import CASES
from tests.unit.embedded.apiserver.conftest import Embedded

PLURALS = {kind.kind: kind for kind in builtin.kinds()}
VALUES: list[Any] = ["x", "1", 1, 0, True, [], {}, {"a": "b"}, ["x"], None]
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.demo.dev"},
    "spec": {
        "group": "demo.dev",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object",
                "properties": {
                    "parts": {"type": "array", "items": {"type": "object", "properties": {
                        "name": {"type": "string"}, "size": {"type": "integer", "default": 1}}}},
                    "more": {"type": "object", "additionalProperties": {
                        "type": "object", "properties": {"on": {
                            "type": "boolean", "default": True}}}},
                },
            }}},
        }}],
    },
}  # fmt: skip
WIDGET: dict[str, Any] = {
    "apiVersion": "demo.dev/v1",
    "kind": "Widget",
    "metadata": {"name": "a"},
    "spec": {"parts": [{"name": "p"}, {}], "more": {"m": {}, "n": {"on": False}}},
}


def paths(value: Any, at: str = "") -> list[str]:
    """Return the JSON pointer of every field and item."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[str] = []
    for key, inner in items:
        step = str(key).replace("~", "~0").replace("/", "~1")
        found.append(f"{at}/{step}")
        if isinstance(inner, dict | list):
            found += paths(inner, f"{at}/{step}")
    return found


def a_merge(body: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Change one field of some map."""
    change: dict[str, Any] = {}
    here, inside = change, body
    while True:
        key = dice.choice([*inside, "more"])
        if not isinstance(inside.get(key), dict) or dice.random() < 0.2:
            here[key] = dice.choice(VALUES)
            return change
        here[key] = {}
        here, inside = here[key], inside[key]


def operations(body: dict[str, Any], dice: random.Random) -> list[dict[str, Any]]:
    known = [path for path in paths(body) if path.count("/") > 1]
    made: list[dict[str, Any]] = []
    for _ in range(dice.randint(1, 3)):
        op = dice.choice(["add", "replace", "remove", "copy", "move"])
        one = {"op": op, "path": dice.choice(known)}
        if op in ("copy", "move"):
            one["from"] = dice.choice(known)
        made.append(one if op == "remove" else one | {"value": dice.choice(VALUES)})
    return made


async def change(api: Api, body: dict[str, Any], path: str, dice: random.Random) -> None:
    """Try one write of any sort; whether it is refused does not matter here."""
    match dice.randint(0, 3):
        case 0:
            await api.call("PATCH", path, a_merge(body, dice), content=MERGE_PATCH)
        case 1:
            await api.call("PATCH", path, a_merge(body, dice), content=STRATEGIC_PATCH)
        case 2:
            await api.call("PATCH", path, operations(body, dice), content=JSON_PATCH)
        case _:
            sent = copy.deepcopy(body)
            sent["metadata"].setdefault("labels", {})["n"] = str(dice.random())
            await api.call("PUT", path, sent)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_no_write_alters_an_earlier_version(embedded: Embedded, seed: int) -> None:
    """Whatever is written, the versions before are what their bytes say."""
    api, store, dice = embedded.api, embedded.store, random.Random(seed)
    (await api.create("customresourcedefinitions", WIDGETS)).ok()
    bodies = [copy.deepcopy(case.body) for case in dice.sample(CASES, 50)] + [WIDGET]
    versions: list[Stored] = []
    for body in bodies:
        name = body["metadata"].get("name", "")
        kind = PLURALS.get(body["kind"])
        plural, group = (kind.plural, kind.group) if kind else ("widgets", "demo.dev")
        namespace = "default" if kind is None or kind.namespaced else ""
        root = f"/apis/{body['apiVersion']}" if group else "/api/v1"
        where = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        key = Key(f"{plural}.{group}" if group else plural, namespace, name)
        await api.call("POST", where, body)
        for _ in range(60 if body is WIDGET else 8):
            head = store.head(key)
            if head is None:
                break
            versions.append(head)
            status = kind is not None and kind.status and dice.random() < 0.4
            path = f"{where}/{name}/status" if status else f"{where}/{name}"
            await change(api, json.loads(head.raw), path, dice)
    assert len({version.revision for version in versions}) > 50
    for version in versions:
        assert version.body == json.loads(version.raw), version


async def test_a_definition_that_gets_another_name(embedded: Embedded) -> None:
    """What the server writes into the status goes into the new version alone."""
    api, store = embedded.api, embedded.store
    (await api.create("customresourcedefinitions", WIDGETS)).ok()
    key = Key("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.demo.dev")
    before = store.head(key)
    names = {"spec": {"names": {"shortNames": ["wd"]}}}
    after = (await api.patch("customresourcedefinitions", "widgets.demo.dev", names)).ok()
    assert after["status"]["acceptedNames"]["shortNames"] == ["wd"]
    assert before is not None
    assert before.body == json.loads(before.raw)
