"""Bad input: what is refused, with which code, reason and words."""

from __future__ import annotations

import json

import pytest

from boilerhouse.platform.kube.wire import JSON, STRATEGIC_PATCH, YAML
from tests.contract.driver import Api
from tests.contract.objects import config_map, pod, widget


async def test_unknown_paths(api: Api) -> None:
    """Groups, versions and resources that do not exist are 404."""
    for path in (
        "/apis/nothing.example.com/v1/things",
        "/api/v2/pods",
        f"/api/v1/namespaces/{api.namespace}/nothings",
        "/apis/apps/v9/statefulsets",
        "/nonsense",
    ):
        assert (await api.call("GET", path)).code == 404, path


async def test_not_found_names_what_was_asked_for(api: Api) -> None:
    """A 404 for an object carries name, group and kind."""
    failure = (await api.get("widgets", "nothing")).status(404, "NotFound")
    assert failure["message"] == 'widgets.contract.example.com "nothing" not found'
    assert failure["details"] == {
        "name": "nothing",
        "group": "contract.example.com",
        "kind": "widgets",
    }


@pytest.mark.parametrize(
    ("method", "resource", "name"),
    [("POST", "configmaps", "a"), ("PUT", "configmaps", ""), ("PATCH", "configmaps", "")],
)
async def test_methods_that_do_not_exist(api: Api, method: str, resource: str, name: str) -> None:
    """A verb in the wrong place is 405."""
    answer = await api.call(method, api.path(resource, name), config_map("a"))
    answer.status(405, "MethodNotAllowed")


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'"text"', b"nonsense", b'{"metadata": 1}'])
@pytest.mark.parametrize("resource", ["configmaps", "widgets"])
async def test_malformed_bodies(api: Api, resource: str, body: bytes) -> None:
    """What cannot be read as an object is 400."""
    answer = await api.call("POST", api.path(resource), body)
    assert answer.code in (400, 422), answer.body
    assert answer.body["kind"] == "Status"
    assert await api.names(resource) == []


async def test_wrong_types_in_built_in_kinds(api: Api) -> None:
    """A number where text belongs is 400 for kinds with a fixed shape."""
    body = {"metadata": {"name": "a"}, "data": {"x": 1}}
    (await api.create("configmaps", body)).status(400, "BadRequest")


async def test_yaml_bodies(api: Api) -> None:
    """YAML is read like JSON."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n"
    created = await api.call("POST", api.path("configmaps"), text, content=YAML)
    assert created.ok()["data"] == {"x": "1"}


@pytest.mark.parametrize("body", [b"a: b: c", b"\tx: 1", b"- 1\n- 2\n", b": :\n"])
async def test_malformed_yaml(api: Api, body: bytes) -> None:
    """YAML that cannot be read as an object is 400."""
    answer = await api.call("POST", api.path("configmaps"), body, content=YAML)
    assert answer.code == 400
    assert answer.body["kind"] == "Status"


@pytest.mark.parametrize("content", ["text/plain", "application/xml", "nonsense"])
async def test_wrong_content_types(api: Api, content: str) -> None:
    """A body of an unknown type is 415."""
    body = json.dumps(config_map("a")).encode()
    answer = await api.call("POST", api.path("configmaps"), body, content=content)
    answer.status(415, "UnsupportedMediaType")


async def test_a_content_type_with_parameters(api: Api) -> None:
    """A charset does not make it another type."""
    content = f"{JSON}; charset=utf-8"
    answer = await api.call("POST", api.path("configmaps"), config_map("a"), content=content)
    assert answer.code == 201


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/png"])
async def test_answers_nobody_can_give(api: Api, accept: str) -> None:
    """An Accept header that nothing matches is 406."""
    answer = await api.call("GET", api.path("widgets"), accept=accept)
    assert answer.code == 406
    assert answer.body["reason"] == "NotAcceptable"


async def test_oversized_bodies(api: Api) -> None:
    """More than 3 MiB is 413, before anything is decoded."""
    big = config_map("a", x="y" * (3 << 20))
    answer = await api.create("configmaps", big)
    assert answer.code == 413
    assert answer.body["reason"] == "RequestEntityTooLarge"
    assert await api.names("configmaps") == []


async def test_config_maps_hold_a_mebibyte(api: Api) -> None:
    """Data of more than 1 MiB is refused as an invalid object."""
    answer = await api.create("configmaps", config_map("a", x="y" * ((1 << 20) + 1)))
    answer.status(422, "Invalid")
    assert (await api.create("configmaps", config_map("a", x="y" * (1 << 20)))).code == 201


async def test_annotations_hold_a_quarter_mebibyte(api: Api) -> None:
    """All annotations together may have 256 KiB."""
    body = config_map("a")
    body["metadata"]["annotations"] = {"x": "y" * (256 << 10)}
    answer = await api.create("configmaps", body)
    assert answer.causes() == {("metadata.annotations", "FieldValueTooLong")}


@pytest.mark.parametrize("resource", ["configmaps", "widgets"])
async def test_unknown_fields_under_strict(api: Api, resource: str) -> None:
    """fieldValidation=Strict refuses unknown and repeated fields, each named."""
    body = config_map("a") if resource == "configmaps" else widget("a")
    body["nonsense"] = 1
    answer = await api.create(resource, body, fieldValidation="Strict")
    failure = answer.status(400, "BadRequest")
    assert "strict decoding error" in failure["message"]
    assert 'unknown field "nonsense"' in failure["message"]
    assert await api.names(resource) == []


async def test_unknown_fields_under_warn(api: Api) -> None:
    """fieldValidation=Warn stores what is known and says what is not, in a header."""
    body = widget("a", nonsense=1)
    answer = await api.create("widgets", body, fieldValidation="Warn")
    assert answer.code == 201
    assert "nonsense" not in answer.ok()["spec"]
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.nonsense\\""'
    body = widget("b", nonsense=1)
    silent = await api.create("widgets", body, fieldValidation="Ignore")
    assert silent.code == 201
    assert "warning" not in silent.headers


async def test_strict_patches(api: Api) -> None:
    """A patch is checked too."""
    (await api.create("widgets", widget("a"))).ok()
    answer = await api.patch("widgets", "a", {"spec": {"nonsense": 1}}, fieldValidation="Strict")
    assert answer.code in (400, 422)
    assert 'unknown field "spec.nonsense"' in answer.body["message"]


async def test_repeated_fields_under_strict(api: Api) -> None:
    """A key given twice is an error for whoever asks for strictness."""
    text = b'{"metadata": {"name": "a"}, "data": {"x": "1"}, "data": {"x": "2"}}'
    path = api.path("configmaps")
    answer = await api.call("POST", path, text, query={"fieldValidation": "Strict"})
    failure = answer.status(400, "BadRequest")
    assert 'duplicate field "data"' in failure["message"]


async def test_an_unknown_field_validation(api: Api) -> None:
    """fieldValidation has three values."""
    answer = await api.create("configmaps", config_map("a"), fieldValidation="Perhaps")
    answer.status(422, "Invalid")


async def test_pods_are_validated(api: Api) -> None:
    """A Pod without containers, and one with two of a name, is 422 with the fields."""
    answer = await api.create("pods", pod("a") | {"spec": {"containers": []}})
    assert ("spec.containers", "FieldValueRequired") in answer.causes()
    body = pod("a")
    body["spec"]["containers"] *= 2
    answer = await api.create("pods", body)
    assert ("spec.containers[1].name", "FieldValueDuplicate") in answer.causes()
    body = pod("a")
    body["spec"]["containers"][0]["name"] = "Not_A_Label"
    answer = await api.create("pods", body)
    assert ("spec.containers[0].name", "FieldValueInvalid") in answer.causes()
    answer = await api.create("pods", pod("a", restartPolicy="Sometimes"))
    assert ("spec.restartPolicy", "FieldValueNotSupported") in answer.causes()


async def test_pod_defaults(api: Api) -> None:
    """What a Pod does not say is filled in as everybody expects."""
    spec = (await api.create("pods", pod("a"))).ok()["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["serviceAccountName"] == "default"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert spec["enableServiceLinks"] is True


async def test_the_spec_of_a_pod_is_fixed(api: Api) -> None:
    """Of a Pod's spec only a few fields change after it was made."""
    (await api.create("pods", pod("a"))).ok()
    answer = await api.patch("pods", "a", {"spec": {"hostname": "x"}})
    assert ("spec", "FieldValueForbidden") in answer.causes()
    patch = {"spec": {"containers": [{"name": "c", "image": "localhost/echo:2"}]}}
    assert (await api.patch("pods", "a", patch, content=STRATEGIC_PATCH)).code == 200


async def test_immutable_secrets_and_config_maps(api: Api) -> None:
    """`immutable: true` means it."""
    (await api.create("configmaps", config_map("a", x="1") | {"immutable": True})).ok()
    answer = await api.patch("configmaps", "a", {"data": {"x": "2"}})
    assert ("data", "FieldValueForbidden") in answer.causes()
    answer = await api.patch("configmaps", "a", {"immutable": None})
    assert ("immutable", "FieldValueForbidden") in answer.causes()
    label = {"metadata": {"labels": {"x": "y"}}}
    assert (await api.patch("configmaps", "a", label)).code == 200


async def test_secrets_take_text_and_keep_bytes(api: Api) -> None:
    """stringData is written into data and not shown again; data must be base64."""
    body = {"metadata": {"name": "a"}, "stringData": {"k": "v"}}
    created = (await api.create("secrets", body)).ok()
    assert created["data"] == {"k": "dg=="}
    assert "stringData" not in created
    assert created["type"] == "Opaque"
    bad = {"metadata": {"name": "b"}, "data": {"k": "not base64!"}}
    (await api.create("secrets", bad)).status(400, "BadRequest")


async def test_dry_run(api: Api) -> None:
    """dryRun=All answers as if, and stores nothing."""
    answer = await api.create("configmaps", config_map("a"), dryRun="All")
    assert answer.code == 201
    assert answer.ok()["metadata"]["uid"]
    assert "resourceVersion" not in answer.ok()["metadata"]
    assert await api.names("configmaps") == []
    (await api.create("configmaps", config_map("a", x="1"))).ok()
    (await api.create("configmaps", config_map("a"), dryRun="All")).status(409, "AlreadyExists")
    patched = await api.patch("configmaps", "a", {"data": {"x": "2"}}, dryRun="All")
    assert patched.ok()["data"] == {"x": "2"}
    assert (await api.delete("configmaps", "a", dryRun="All")).code == 200
    assert (await api.get("configmaps", "a")).ok()["data"] == {"x": "1"}
    answer = await api.create("configmaps", config_map("b"), dryRun="Perhaps")
    answer.status(422, "Invalid")


async def test_dry_run_is_validated(api: Api) -> None:
    """A dry run finds what the real one would."""
    answer = await api.create("widgets", widget("a", size=0), dryRun="All")
    assert answer.causes() == {("spec.size", "FieldValueInvalid")}
