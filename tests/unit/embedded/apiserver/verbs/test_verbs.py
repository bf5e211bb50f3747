"""Writes through the server: what is decided together, what is told when, what is no write."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.verbs import preparing
from boilerhouse.platform.kube.wire import JSON, MERGE_PATCH, YAML
from tests.contract.driver import Api
from tests.unit.embedded.apiserver.conftest import Embedded

Body = dict[str, object]


def config_map(name: str, **data: str) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_concurrent_patches_without_a_version_all_count(api: Api) -> None:
    """A patch is applied to whatever is there: none conflicts, none is lost."""
    (await api.create("configmaps", config_map("a"))).ok()
    patches = [api.patch("configmaps", "a", {"data": {f"k{n}": "v"}}) for n in range(50)]
    answers = await asyncio.gather(*patches)
    assert {answer.code for answer in answers} == {200}
    assert len((await api.get("configmaps", "a")).ok()["data"]) == 50


async def test_of_concurrent_updates_of_one_version_one_wins(api: Api) -> None:
    """A version can be replaced once; the others are told that they are late."""
    seen = (await api.create("configmaps", config_map("a"))).ok()
    updates = [api.update("configmaps", {**seen, "data": {"n": str(n)}}) for n in range(20)]
    codes = sorted(answer.code for answer in await asyncio.gather(*updates))
    assert codes == [200] + [409] * 19


async def test_of_concurrent_creates_of_one_name_one_wins(api: Api) -> None:
    """Whoever is told that the name is taken finds the object at once."""

    async def create() -> int:
        answer = await api.create("configmaps", config_map("a"))
        if answer.code == 409:
            assert (await api.get("configmaps", "a")).code == 200
        return answer.code

    codes = sorted(await asyncio.gather(*[create() for _ in range(20)]))
    assert codes == [201] + [409] * 19


async def test_a_write_that_changes_nothing_waits_for_what_it_equals(embedded: Embedded) -> None:
    """The answer to a no-op is as durable as any: the version it shows is committed."""
    api = embedded.api
    (await api.create("configmaps", config_map("a", k="1"))).ok()
    real = asyncio.ensure_future(api.patch("configmaps", "a", {"data": {"k": "2"}}))
    await asyncio.sleep(0)
    same = (await api.patch("configmaps", "a", {"data": {"k": "2"}})).ok()
    assert int(same["metadata"]["resourceVersion"]) <= embedded.store.revision
    assert (await real).ok()["metadata"]["resourceVersion"] == same["metadata"]["resourceVersion"]


def test_true_is_not_one() -> None:
    """A change from 1 to true is a change, although the language we are written in says no."""
    assert not preparing.same({"spec": {"n": 1}}, {"spec": {"n": True}})
    assert preparing.same({"a": 1, "b": [{"c": 1}]}, {"b": [{"c": 1}], "a": 1})


async def test_a_dry_run_shows_and_stores_nothing(embedded: Embedded) -> None:
    """Create, update, patch and delete with dryRun answer as usual and leave no trace."""
    api, store = embedded.api, embedded.store
    kept = (await api.create("configmaps", config_map("kept", k="1"))).ok()
    revision = store.revision
    made = (await api.create("configmaps", config_map("a"), dryRun="All")).ok()
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    patched = (await api.patch("configmaps", "kept", {"data": {"k": "2"}}, dryRun="All")).ok()
    assert patched["data"] == {"k": "2"}
    (await api.delete("configmaps", "kept", dryRun="All")).ok()
    assert (await api.get("configmaps", "kept")).ok() == kept
    assert (await api.get("configmaps", "a")).code == 404
    assert store.revision == revision


async def test_a_store_that_cannot_write_is_an_internal_error(embedded: Embedded) -> None:
    """The client hears that its write did not happen, and why; reads still work."""
    (await embedded.api.create("configmaps", config_map("a"))).ok()
    await embedded.store.close()
    failure = (await embedded.api.create("configmaps", config_map("b"))).status(
        500, "InternalError"
    )
    assert "the store is closed" in failure["message"]
    assert (await embedded.api.get("configmaps", "a")).code == 200


async def test_generated_names_do_not_collide(api: Api) -> None:
    """Many objects of one prefix get names of their own."""
    body = {"metadata": {"generateName": "job-"}}
    made = await asyncio.gather(*[api.create("configmaps", body) for _ in range(200)])
    names = {answer.ok()["metadata"]["name"] for answer in made}
    assert len(names) == 200
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"{" * 5000, JSON),
        (b'{"metadata":{"name":"a"},"data":' + b'{"a":' * 300 + b"1" + b"}" * 301, JSON),
        (b"a: &a [*a]", YAML),
        (
            b"a: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(
                f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n".encode()
                for n in range(12)
            ),
            YAML,
        ),
        (b"metadata: {name: !!python/object:os.system x}", YAML),
        (b"\xff\xfe", JSON),
        (b"\xff\xfe\x00", YAML),
        (b'{"metadata": {"name": "\\ud800"}}', JSON),
    ],
    ids=["open", "deep", "loop", "bomb", "object", "bytes", "bytes-yaml", "surrogate"],
)
async def test_hostile_bodies_are_refused(api: Api, data: bytes, content: str) -> None:
    """What cannot be an object is a bad request, whatever it tries."""
    answer = await api.call("POST", api.path("configmaps"), data, content=content)
    answer.status(400, "BadRequest")


async def test_yaml_is_read_as_kubernetes_reads_it(api: Api) -> None:
    """Dates stay text, and keys become strings."""
    text = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: y}\ndata: {when: 2020-01-01, 1: a}\n"
    made = (await api.call("POST", api.path("configmaps"), text, content=YAML)).ok()
    assert made["data"] == {"when": "2020-01-01", "1": "a"}


async def test_a_body_of_more_than_three_mebibytes_is_too_large(api: Api) -> None:
    """The limit holds before anything is parsed."""
    data = json.dumps(config_map("a", k="x" * (3 << 20))).encode()
    answer = await api.call("POST", api.path("configmaps"), data)
    answer.status(413, "RequestEntityTooLarge")


async def test_fields_that_are_there_twice(api: Api) -> None:
    """Strict refuses and names them; otherwise the last one counts and a warning says so."""
    data = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2","l":"x"}}'
    path = api.path("configmaps")
    strict = await api.call("POST", path, data, query={"fieldValidation": "Strict"})
    assert 'duplicate field "data.k"' in strict.status(400, "BadRequest")["message"]
    warned = await api.call("POST", path, data)
    assert warned.ok()["data"] == {"k": "2", "l": "x"}
    assert warned.headers["warning"] == '299 - "duplicate field \\"data.k\\""'


async def test_bytes_that_are_no_base64_are_refused(api: Api) -> None:
    """Of a Secret and a ConfigMap, new and patched, in ASCII or not: 400 and which key."""
    for kind, resource, field in (
        ("Secret", "secrets", "data"),
        ("ConfigMap", "configmaps", "binaryData"),
    ):
        new = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "held"}}
        (await api.create(resource, new)).ok()
        for text in ("é", "a", "****"):
            body = {field: {"key": text}}
            other = new | {"metadata": {"name": "other"}} | body
            path = api.path(resource, "held")
            for refused in (
                await api.create(resource, other),
                await api.call("PATCH", path, body, content=MERGE_PATCH),
            ):
                assert f"{field}[key]" in refused.status(400, "BadRequest")["message"]


async def test_managed_fields_are_not_kept(api: Api) -> None:
    """Clients that send back what a real server gave them are understood."""
    managed = [{"manager": "x", "operation": "Update", "fieldsV1": {"f:data": {}}}]
    body = {"metadata": {"name": "a", "managedFields": managed, "selfLink": "/x"}}
    made = (await api.create("configmaps", body)).ok()
    assert set(made["metadata"]) == {
        "name", "namespace", "uid", "creationTimestamp", "resourceVersion",
    }  # fmt: skip


async def test_the_type_comes_first_and_once(api: Api) -> None:
    """An object is stored with its type; items of a built-in list go without."""
    await api.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    one = await api.get("configmaps", "a")
    assert list(one.ok())[:3] == ["kind", "apiVersion", "metadata"]
    (item,) = (await api.get("configmaps", fieldSelector="metadata.name=a")).ok()["items"]
    assert list(item) == ["metadata", "data"]


def test_unchanged_fields_are_so_to_the_byte() -> None:
    """Fields count as unchanged if JSON says so; metadata is looked at whatever it says."""
    old = {"kind": "A", "metadata": {"name": "a"}, "spec": {"n": 1}, "status": {}, "data": [1]}
    new = {"kind": "A", "metadata": {"name": "a"}, "spec": {"n": True}, "status": {}, "data": [1.0]}

    def shared(body: dict[str, Any]) -> set[str]:
        before = {id(value) for value in old.values() if isinstance(value, dict | list)}
        return {name for name, value in preparing.share(body, old).items() if id(value) in before}

    assert shared(new) == {"status"}
    assert shared({**copy.deepcopy(old), "more": 1}) == {"spec", "status", "data"}


async def test_a_patch_to_what_only_python_calls_equal_is_checked(api: Api) -> None:
    """A number in the place of an equal boolean is refused, by every kind of patch."""
    body = {**config_map("a"), "immutable": True}
    (await api.create("configmaps", body)).ok()
    assert (await api.patch("configmaps", "a", {"immutable": 1})).code == 400
    assert (await api.get("configmaps", "a")).ok()["immutable"] is True
