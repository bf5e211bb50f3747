"""Definitions live: served with the answer, again after a restart, gone with their objects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from boilerhouse.platform.kube.wire import JSON_PATCH, MERGE_PATCH
from tests.contract.driver import Api
from tests.contract.objects import crd
from tests.unit.embedded.apiserver.conftest import Start

Body = dict[str, Any]
REPLACE = {"op": "replace", "path": "/spec/versions"}
BASE = "/apis/x.dev/v1/namespaces/default/things"


def things(**properties: Any) -> Body:
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    return crd("things", "Thing", schema, group="x.dev")


def thing(name: str, **spec: Any) -> Body:
    return {
        "apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


async def test_a_kind_is_served_with_the_answer(api: Api) -> None:
    """No waiting, no polling: the definition is established and usable when create returns."""
    made = (await api.create("customresourcedefinitions", things())).ok()
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert (await api.call("POST", BASE, thing("a"))).code == 201


async def test_kinds_are_served_again_after_a_restart(start: Start) -> None:
    """What is stored can be reached at once, and is still validated."""
    async with start() as embedded:
        definition = things(size={"type": "integer"})
        (await embedded.api.create("customresourcedefinitions", definition)).ok()
        (await embedded.api.call("POST", BASE, thing("a", size=1))).ok()
    async with start() as embedded:
        assert (await embedded.api.call("GET", f"{BASE}/a")).ok()["spec"] == {"size": 1}
        refused = await embedded.api.call("POST", BASE, thing("b", size="large"))
        assert refused.causes() == {("spec.size", "FieldValueTypeInvalid")}


@pytest.mark.slow
async def test_older_objects_are_seen_through_the_schema_of_today(start: Start) -> None:
    """Reads, lists and watches show a new default and hide a lost field; nothing is written."""
    async with start() as embedded:
        api = embedded.api
        definition = things(old={"type": "string"}, size={"type": "integer"})
        (await api.create("customresourcedefinitions", definition)).ok()
        before = (await api.call("POST", BASE, thing("a", old="x"))).ok()
        stored = (await api.get("customresourcedefinitions", "things.x.dev")).ok()
        stored["spec"] = things(size={"type": "integer", "default": 3})["spec"]
        (await api.update("customresourcedefinitions", stored)).ok()
        revision = embedded.store.revision
        expected = {"size": 3}
        read = (await api.call("GET", f"{BASE}/a")).ok()
        assert read["spec"] == expected
        assert read["metadata"] == before["metadata"]
        (item,) = (await api.call("GET", BASE)).ok()["items"]
        assert item["spec"] == expected
        watch = await api.call("GET", BASE, query={"watch": 1, "timeoutSeconds": 1})
        assert watch.ok()["object"]["spec"] == expected
        assert embedded.store.revision == revision


async def test_a_dying_definition_takes_no_more_objects(api: Api) -> None:
    """It waits for those it has, and goes with the last."""
    (await api.create("customresourcedefinitions", things())).ok()
    held = thing("held")
    held["metadata"]["finalizers"] = ["x.dev/hold"]
    (await api.call("POST", BASE, held)).ok()
    (await api.call("POST", BASE, thing("free"))).ok()
    (await api.delete("customresourcedefinitions", "things.x.dev")).ok()
    (await api.call("POST", BASE, thing("late"))).status(405, "MethodNotAllowed")

    async def only_held() -> bool:
        items = (await api.call("GET", BASE)).ok()["items"]
        return [item["metadata"]["name"] for item in items] == ["held"]

    await api.until(only_held, timeout=5)
    path = f"{BASE}/held"
    free = {"metadata": {"finalizers": None}}
    (await api.call("PATCH", path, free, content="application/merge-patch+json")).ok()
    await api.gone("customresourcedefinitions", "things.x.dev", timeout=5)
    assert (await api.call("GET", BASE)).code == 404


async def test_a_definition_that_waits_for_a_name_gets_it(api: Api) -> None:
    """Two kinds of one name cannot be served; when the first goes, the second comes."""
    (await api.create("customresourcedefinitions", things())).ok()
    rival = crd("thingies", "Thing", {"type": "object"}, group="x.dev")
    made = (await api.create("customresourcedefinitions", rival)).ok()
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "False", "Established": "False"}
    path = "/apis/x.dev/v1/namespaces/default/thingies"
    assert (await api.call("GET", path)).code == 404
    (await api.delete("customresourcedefinitions", "things.x.dev")).ok()

    async def served() -> bool:
        return (await api.call("GET", path)).code == 200

    await api.until(served, timeout=5)


async def test_definitions_come_and_go_while_others_are_used(api: Api) -> None:
    """Installing one kind does not disturb requests for another."""
    (await api.create("customresourcedefinitions", things())).ok()

    async def use(number: int) -> int:
        return (await api.call("POST", BASE, thing(f"t{number}"))).code

    async def come_and_go(number: int) -> None:
        plural = f"others{number}"
        definition = crd(plural, f"Other{number}", {"type": "object"}, group="x.dev")
        (await api.create("customresourcedefinitions", definition)).ok()
        (await api.delete("customresourcedefinitions", f"{plural}.x.dev")).ok()

    codes = await asyncio.gather(*[use(n) for n in range(30)], *[come_and_go(n) for n in range(5)])
    assert codes[:30] == [201] * 30


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "object", "properties": {"a": ["x"]}}},
        {"type": "array", "items": "x"},
        {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": 3}}},
        {"type": "array", "items": {"type": "string", "anyOf": ["x"]}},
    ],
)
async def test_what_is_no_schema_is_refused_wherever_it_stands(api: Api, schema: Body) -> None:
    """Below lists and maps, too: as a body that cannot be read, and not as a fault of ours."""
    refused = await api.create("customresourcedefinitions", things(a=schema))
    assert "cannot unmarshal" in refused.status(400, "BadRequest")["message"]


@pytest.mark.parametrize("versions", [["x"], [None], [3, {"name": "v1"}], "x", {"a": 1}, 3])
async def test_a_patch_with_versions_that_are_none_is_refused(api: Api, versions: object) -> None:
    """As a body that cannot be read or an invalid one, and never as a fault of ours."""
    (await api.create("customresourcedefinitions", things())).ok()
    path = api.path("customresourcedefinitions", "things.x.dev")
    patch = {"spec": {"versions": versions}}
    for body, content in ((patch, MERGE_PATCH), ([{**REPLACE, "value": versions}], JSON_PATCH)):
        refused = await api.call("PATCH", path, body, content=content)
        assert refused.code in (400, 422), refused.body
    assert (await api.call("POST", BASE, thing("a"))).code == 201
