"""The three kinds of patch, and what each does to a conflict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from boilerhouse.platform.kube.wire import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.contract.driver import Api
from tests.contract.objects import config_map, pod, widget


async def test_merge_patch(api: Api) -> None:
    """Given keys are set, null removes, the rest stays."""
    (await api.create("configmaps", config_map("a", {"l": "1", "m": "1"}, x="1", y="2"))).ok()
    patch = {"metadata": {"labels": {"m": None}}, "data": {"y": None, "z": "3"}}
    patched = (await api.patch("configmaps", "a", patch)).ok()
    assert patched["data"] == {"x": "1", "z": "3"}
    assert patched["metadata"]["labels"] == {"l": "1"}


async def test_merge_patch_replaces_lists(api: Api) -> None:
    """A list is a value: a merge patch puts the new one in its place."""
    (await api.create("widgets", widget("a", names=["x", "y"]))).ok()
    patched = (await api.patch("widgets", "a", {"spec": {"names": ["z"]}})).ok()
    assert patched["spec"]["names"] == ["z"]


async def test_json_patch(api: Api) -> None:
    """Operations run in order; `~1` in a pointer is a slash."""
    (await api.create("configmaps", config_map("a", {"l": "1"}, x="1"))).ok()
    operations = [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1a", "value": "b"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "copy", "from": "/data/x", "path": "/data/y"},
        {"op": "move", "from": "/data/x", "path": "/data/z"},
        {"op": "remove", "path": "/metadata/labels/l"},
    ]
    patched = (await api.patch("configmaps", "a", operations, content=JSON_PATCH)).ok()
    assert patched["data"] == {"y": "2", "z": "2"}
    assert patched["metadata"]["annotations"] == {"example.com/a": "b"}
    assert not patched["metadata"].get("labels")


async def test_json_patch_with_a_test_that_holds(api: Api) -> None:
    """A `test` that holds lets the rest happen."""
    created = (await api.create("configmaps", config_map("a", x="1"))).ok()
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]},
        {
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": created["metadata"]["resourceVersion"],
        },
        {"op": "replace", "path": "/data/x", "value": "2"},
    ]
    patched = (await api.patch("configmaps", "a", operations, content=JSON_PATCH)).ok()
    assert patched["data"] == {"x": "2"}


@pytest.mark.parametrize("resource", ["configmaps", "widgets"])
async def test_json_patch_with_a_test_that_fails(api: Api, resource: str) -> None:
    """A `test` that fails is 422 Invalid, and nothing of the patch happens."""
    body = config_map("a") if resource == "configmaps" else widget("a")
    created = (await api.create(resource, body)).ok()
    operations = [
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
        {"op": "test", "path": "/metadata/uid", "value": "another"},
    ]
    (await api.patch(resource, "a", operations, content=JSON_PATCH)).status(422, "Invalid")
    after = (await api.get(resource, "a")).ok()
    assert after["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_json_patch_test_of_an_absent_path(api: Api) -> None:
    """Testing a path that is not there for null holds; for a value it fails."""
    (await api.create("configmaps", config_map("a", x="1"))).ok()
    absent = {"op": "test", "path": "/data/y", "value": None}
    add = {"op": "add", "path": "/data/y", "value": "2"}
    assert (await api.patch("configmaps", "a", [absent, add], content=JSON_PATCH)).code == 200
    (await api.patch("configmaps", "a", [absent, add], content=JSON_PATCH)).status(422, "Invalid")


async def test_json_patch_under_an_absent_parent(api: Api) -> None:
    """An `add` below something absent is 422; so are `remove` and `replace` of nothing."""
    (await api.create("configmaps", config_map("a"))).ok()
    for operation in (
        {"op": "add", "path": "/nothing/here", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/x"},
        {"op": "replace", "path": "/metadata/labels/x", "value": "1"},
    ):
        answer = await api.patch("configmaps", "a", [operation], content=JSON_PATCH)
        answer.status(422, "Invalid")


async def test_strategic_patch_merges_lists_by_key(api: Api) -> None:
    """Containers and env entries are found by name; `$patch: delete` removes one."""
    body = pod("a")
    body["spec"]["containers"].append({"name": "d", "image": "localhost/echo:1"})
    (await api.create("pods", body)).ok()
    patch: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "localhost/echo:2"}]}}
    patched = (await api.patch("pods", "a", patch, content=STRATEGIC_PATCH)).ok()
    assert [(c["name"], c["image"]) for c in patched["spec"]["containers"]] == [
        ("c", "localhost/echo:2"),
        ("d", "localhost/echo:1"),
    ]


async def test_strategic_patch_of_service_ports(api: Api) -> None:
    """Ports of a Service are found by port number, and `$patch: delete` takes one away."""
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    body = {"metadata": {"name": "s"}, "spec": {"ports": ports, "selector": {"x": "y"}}}
    (await api.create("services", body)).ok()
    patch = {"spec": {"ports": [{"port": 81, "$patch": "delete"}, {"port": 82, "name": "c"}]}}
    patched = (await api.patch("services", "s", patch, content=STRATEGIC_PATCH)).ok()
    assert {(p["name"], p["port"]) for p in patched["spec"]["ports"]} == {("a", 80), ("c", 82)}
    select = {"spec": {"selector": {"x": None, "z": "1"}}}
    patched = (await api.patch("services", "s", select, content=STRATEGIC_PATCH)).ok()
    assert patched["spec"]["selector"] == {"z": "1"}


async def test_strategic_patch_of_finalizers_merges(api: Api) -> None:
    """Finalizers merge as a set; `$deleteFromPrimitiveList` takes one out."""
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/a"]
    (await api.create("configmaps", body)).ok()
    patch: dict[str, Any] = {"metadata": {"finalizers": ["example.com/b"]}}
    patched = (await api.patch("configmaps", "a", patch, content=STRATEGIC_PATCH)).ok()
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    patched = (await api.patch("configmaps", "a", patch, content=STRATEGIC_PATCH)).ok()
    assert patched["metadata"]["finalizers"] == ["example.com/b"]


async def test_strategic_patch_replace_directive(api: Api) -> None:
    """`$patch: replace` puts the given map in the place of the old one."""
    (await api.create("configmaps", config_map("a", x="1", y="2"))).ok()
    patch = {"data": {"$patch": "replace", "z": "3"}}
    patched = (await api.patch("configmaps", "a", patch, content=STRATEGIC_PATCH)).ok()
    assert patched["data"] == {"z": "3"}


async def test_custom_resources_take_no_strategic_patch(api: Api) -> None:
    """Without merge keys there is no strategic merge: 415 that names what is supported."""
    (await api.create("widgets", widget("a"))).ok()
    answer = await api.patch("widgets", "a", {"spec": {"size": 2}}, content=STRATEGIC_PATCH)
    failure = answer.status(415, "UnsupportedMediaType")
    assert MERGE_PATCH in failure["message"]
    assert JSON_PATCH in failure["message"]


@pytest.mark.parametrize("content", ["application/json", "text/plain"])
async def test_patch_of_an_unknown_type(api: Api, content: str) -> None:
    """A patch must say which kind of patch it is."""
    (await api.create("configmaps", config_map("a"))).ok()
    answer = await api.patch("configmaps", "a", {"data": {"x": "1"}}, content=content)
    answer.status(415, "UnsupportedMediaType")


async def test_patch_of_nothing(api: Api) -> None:
    """A patch needs something to patch: 404 that names it."""
    failure = (await api.patch("configmaps", "a", {"data": {}})).status(404, "NotFound")
    assert failure["details"] == {"name": "a", "kind": "configmaps"}


@pytest.mark.parametrize("content", [MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH])
async def test_malformed_patch(api: Api, content: str) -> None:
    """What is not JSON is 400, whatever the kind of patch."""
    (await api.create("configmaps", config_map("a"))).ok()
    answer = await api.patch("configmaps", "a", b'{"data": ', content=content)
    answer.status(400, "BadRequest")


async def test_a_json_patch_is_a_list(api: Api) -> None:
    """An object sent as a JSON patch is 400."""
    (await api.create("configmaps", config_map("a"))).ok()
    answer = await api.patch("configmaps", "a", {"data": {"x": "1"}}, content=JSON_PATCH)
    answer.status(400, "BadRequest")


async def test_a_merge_patch_is_an_object(api: Api) -> None:
    """A list sent as a merge patch is refused."""
    (await api.create("configmaps", config_map("a"))).ok()
    (await api.patch("configmaps", "a", [1])).status(400, "BadRequest")


async def test_patch_cannot_change_identity(api: Api) -> None:
    """Name, namespace and uid are not patched."""
    (await api.create("configmaps", config_map("a"))).ok()
    (await api.patch("configmaps", "a", {"metadata": {"name": "b"}})).status(400, "BadRequest")
    (await api.patch("configmaps", "a", {"metadata": {"namespace": "b"}})).status(400, "BadRequest")
    answer = await api.patch("configmaps", "a", {"metadata": {"uid": "b"}})
    assert answer.causes() == {("metadata.uid", "FieldValueInvalid")}


async def test_apply_patch_is_not_for_the_embedded_world(api: Api) -> None:
    """Nothing of ours uses server-side apply; whoever does gets an answer that is no surprise."""
    body = config_map("a", x="1")
    answer = await api.patch(
        "configmaps", "a", body, content=APPLY_PATCH, fieldManager="me", force="true"
    )
    assert answer.code in (201, 415)


class TestConflicts:
    """Writes that carry what they were decided on."""

    async def test_update_of_a_stale_object(self, api: Api) -> None:
        """An update with an old resourceVersion is 409 Conflict and changes nothing."""
        stale = (await api.create("configmaps", config_map("a", x="1"))).ok()
        (await api.patch("configmaps", "a", {"data": {"x": "2"}})).ok()
        stale["data"] = {"x": "3"}
        failure = (await api.update("configmaps", stale)).status(409, "Conflict")
        assert failure["details"] == {"name": "a", "kind": "configmaps"}
        assert "the object has been modified" in failure["message"]
        assert (await api.get("configmaps", "a")).ok()["data"] == {"x": "2"}

    @pytest.mark.parametrize("content", [MERGE_PATCH, STRATEGIC_PATCH])
    async def test_patch_that_carries_a_stale_version(self, api: Api, content: str) -> None:
        """A patch may carry the resourceVersion it is meant for."""
        created = (await api.create("configmaps", config_map("a", x="1"))).ok()
        version = created["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
        assert (await api.patch("configmaps", "a", patch, content=content)).code == 200
        patch["data"] = {"x": "3"}
        (await api.patch("configmaps", "a", patch, content=content)).status(409, "Conflict")

    async def test_status_of_a_stale_object(self, api: Api) -> None:
        """The status subresource compares versions too."""
        stale = (await api.create("widgets", widget("a"))).ok()
        (await api.patch("widgets", "a", {"spec": {"size": 2}})).ok()
        stale["status"] = {"phase": "x"}
        failure = (await api.update("widgets", stale, "status")).status(409, "Conflict")
        assert failure["details"] == {
            "name": "a",
            "group": "contract.example.com",
            "kind": "widgets",
        }

    async def test_a_patch_without_a_version_never_conflicts(self, api: Api) -> None:
        """Whoever does not say what the patch was decided on patches what is there."""
        (await api.create("configmaps", config_map("a"))).ok()
        for number in range(5):
            (await api.patch("configmaps", "a", {"data": {"x": str(number)}})).ok()
        assert (await api.get("configmaps", "a")).ok()["data"] == {"x": "4"}

    async def test_two_who_write_at_once(self, api: Api) -> None:
        """Of many updates decided on one version exactly one wins."""
        created = (await api.create("configmaps", config_map("a"))).ok()
        writes = [
            api.update("configmaps", {**created, "data": {"who": str(number)}})
            for number in range(8)
        ]
        codes = sorted(answer.code for answer in await asyncio.gather(*writes))
        assert codes == [200] + [409] * 7
