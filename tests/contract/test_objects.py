"""Create, read, replace, remove: what every kind has in common."""

from __future__ import annotations

import re

import pytest

from tests.contract.driver import Api
from tests.contract.objects import config_map, gadget, pod, widget

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def test_create_answers_with_what_was_stored(api: Api) -> None:
    """A create is 201 with identity and times filled in, and a read gives the same object."""
    created = await api.create("configmaps", config_map("a", {"x": "y"}, k="v"))
    assert created.code == 201
    metadata = created.ok()["metadata"]
    assert UID.fullmatch(metadata["uid"])
    assert TIME.fullmatch(metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == api.namespace
    assert metadata["labels"] == {"x": "y"}
    assert created.ok()["data"] == {"k": "v"}
    read = await api.get("configmaps", "a")
    assert read.code == 200
    assert _bare(read.ok()) == _bare(created.ok())
    assert (read.ok()["apiVersion"], read.ok()["kind"]) == ("v1", "ConfigMap")


async def test_create_of_a_taken_name_is_refused(api: Api) -> None:
    """A second create of one name is 409 AlreadyExists and changes nothing."""
    (await api.create("configmaps", config_map("a", k="1"))).ok()
    failure = (await api.create("configmaps", config_map("a", k="2"))).status(409, "AlreadyExists")
    assert failure["details"] == {"name": "a", "kind": "configmaps"}
    assert failure["message"] == 'configmaps "a" already exists'
    assert (await api.get("configmaps", "a")).ok()["data"] == {"k": "1"}


async def test_what_the_server_owns_cannot_be_set(api: Api) -> None:
    """uid, creationTimestamp, generation and deletionTimestamp in a create are not believed."""
    body = widget("a")
    body["metadata"] |= {
        "uid": "11111111-1111-1111-1111-111111111111",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 7,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "selfLink": "/x",
    }
    metadata = (await api.create("widgets", body)).ok()["metadata"]
    assert metadata["uid"] != "11111111-1111-1111-1111-111111111111"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert metadata["generation"] == 1
    assert "deletionTimestamp" not in metadata


async def test_create_with_a_resource_version_is_refused(api: Api) -> None:
    """A resourceVersion belongs to what exists: in a create it is an error."""
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "5"
    answer = await api.create("configmaps", body)
    assert answer.code in (400, 500)
    assert answer.body["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_dry_run_may_name_a_resource_version(api: Api) -> None:
    """A dry run never comes to the storage, which refuses it; validation comes before that."""
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "5"
    shown = (await api.create("configmaps", body, dryRun="All")).ok()
    assert shown["metadata"]["resourceVersion"] == "5"
    assert (await api.get("configmaps", "a")).code == 404
    wrong = config_map("not a name")
    wrong["metadata"]["resourceVersion"] = "5"
    assert ("metadata.name", "FieldValueInvalid") in (
        await api.create("configmaps", wrong)
    ).causes()


async def test_generate_name(api: Api) -> None:
    """generateName becomes a prefix with five characters more; each create makes another."""
    body = {"metadata": {"generateName": "job-"}}
    first = (await api.create("configmaps", body)).ok()["metadata"]
    second = (await api.create("configmaps", body)).ok()["metadata"]
    assert re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", first["name"])
    assert first["name"] != second["name"]
    assert first["generateName"] == "job-"


async def test_a_name_wins_over_generate_name(api: Api) -> None:
    """With both given, the name is the name."""
    body = {"metadata": {"name": "a", "generateName": "job-"}}
    assert (await api.create("configmaps", body)).ok()["metadata"]["name"] == "a"


async def test_kind_and_api_version_may_be_left_out_of_built_in_kinds(api: Api) -> None:
    """The path says what it is; the answer says it again."""
    created = (await api.create("configmaps", {"metadata": {"name": "a"}})).ok()
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a..b", "a/b", "ä", "x" * 254, "a b"])
async def test_bad_names_are_refused(api: Api, name: str) -> None:
    """A name must be a DNS subdomain of at most 253 characters."""
    answer = await api.create("configmaps", config_map(name))
    assert ("metadata.name", "FieldValueInvalid") in answer.causes()


@pytest.mark.parametrize("name", ["a", "a.b", "a-b.c-d", "1", "x" * 253])
async def test_good_names_are_taken(api: Api, name: str) -> None:
    """Every DNS subdomain is a name."""
    assert (await api.create("configmaps", config_map(name))).code == 201


async def test_a_name_is_needed(api: Api) -> None:
    """Without name and generateName a create is 422."""
    answer = await api.create("configmaps", {"metadata": {}})
    assert answer.causes() == {("metadata.name", "FieldValueRequired")}


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({"a b": "x"}, "metadata.labels"),
        ({"a": "x y"}, "metadata.labels"),
        ({"a": "x" * 64}, "metadata.labels"),
    ],
)
async def test_bad_labels_are_refused(api: Api, labels: dict[str, str], field: str) -> None:
    """Label keys and values have their own grammar."""
    answer = await api.create("configmaps", config_map("a", labels))
    assert answer.causes() == {(field, "FieldValueInvalid")}


async def test_bad_annotation_keys_are_refused(api: Api) -> None:
    """Annotation values are free, their keys are qualified names."""
    body = config_map("a")
    body["metadata"]["annotations"] = {"a b": "x y z"}
    assert (await api.create("configmaps", body)).causes() == {
        ("metadata.annotations", "FieldValueInvalid")
    }


async def test_service_names_are_dns_labels(api: Api) -> None:
    """A Service becomes a DNS label, so dots are not allowed in its name."""
    body = {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 80}]}}
    assert ("metadata.name", "FieldValueInvalid") in (await api.create("services", body)).causes()


async def test_the_namespace_of_the_body_must_be_that_of_the_path(api: Api) -> None:
    """A create into another namespace than the path's is 400."""
    body = config_map("a")
    body["metadata"]["namespace"] = "elsewhere"
    (await api.create("configmaps", body)).status(400, "BadRequest")


async def test_the_name_of_the_body_must_be_that_of_the_path(api: Api) -> None:
    """A replace under another name is 400."""
    created = (await api.create("configmaps", config_map("a"))).ok()
    (await api.update("configmaps", created, name="b")).status(400, "BadRequest")


async def test_a_body_of_another_kind_is_refused(api: Api) -> None:
    """A Secret posted to configmaps is 400."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    (await api.create("configmaps", body)).status(400, "BadRequest")


async def test_create_in_a_namespace_that_is_not_there(api: Api) -> None:
    """A namespace is not made by using it: 404 that names the namespace."""
    path = api.path("configmaps", namespace="nowhere")
    failure = (await api.call("POST", path, config_map("a"))).status(404, "NotFound")
    assert failure["details"] == {"name": "nowhere", "kind": "namespaces"}


async def test_update_replaces_the_whole(api: Api) -> None:
    """What an update leaves out is gone."""
    created = (await api.create("configmaps", config_map("a", {"l": "1"}, k="v"))).ok()
    created["metadata"].pop("labels")
    created["data"] = {"k2": "v2"}
    updated = await api.update("configmaps", created)
    assert updated.code == 200
    assert updated.ok()["data"] == {"k2": "v2"}
    assert "labels" not in updated.ok()["metadata"]
    assert int(updated.ok()["metadata"]["resourceVersion"]) > int(
        created["metadata"]["resourceVersion"]
    )
    assert updated.ok()["metadata"]["uid"] == created["metadata"]["uid"]


async def test_update_of_nothing(api: Api) -> None:
    """Updating a custom resource that does not exist is 404."""
    body = widget("a")
    body["metadata"]["resourceVersion"] = "1"
    (await api.update("widgets", body)).status(404, "NotFound")


async def test_update_without_a_resource_version(api: Api) -> None:
    """Built-in kinds allow a blind replace; custom resources must name what they replace."""
    (await api.create("configmaps", config_map("a", k="1"))).ok()
    assert (await api.update("configmaps", config_map("a", k="2"))).ok()["data"] == {"k": "2"}
    (await api.create("widgets", widget("a"))).ok()
    answer = await api.update("widgets", widget("a", size=2))
    assert answer.causes() == {("metadata.resourceVersion", "FieldValueInvalid")}


async def test_a_write_that_changes_nothing_is_no_write(api: Api) -> None:
    """The resourceVersion stays when an update or patch changes nothing."""
    for resource, body in (
        ("configmaps", config_map("a", k="v")),
        ("widgets", widget("a", size=2)),
    ):
        created = (await api.create(resource, body)).ok()
        again = (await api.update(resource, created)).ok()
        assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
        patched = (await api.patch(resource, "a", {"metadata": {"labels": None}})).ok()
        assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_uid_cannot_be_changed(api: Api) -> None:
    """An update that carries another uid meant another object: 409."""
    created = (await api.create("configmaps", config_map("a"))).ok()
    created["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    (await api.update("configmaps", created)).status(409, "Conflict")


async def test_generation_counts_spec_changes(api: Api) -> None:
    """Metadata and status leave the generation alone, a changed spec raises it by one."""
    created = (await api.create("widgets", widget("a", size=1))).ok()
    assert created["metadata"]["generation"] == 1
    labelled = (await api.patch("widgets", "a", {"metadata": {"labels": {"x": "y"}}})).ok()
    assert labelled["metadata"]["generation"] == 1
    reported = (await api.patch("widgets", "a", {"status": {"phase": "x"}}, "status")).ok()
    assert reported["metadata"]["generation"] == 1
    changed = (await api.patch("widgets", "a", {"spec": {"size": 2}})).ok()
    assert changed["metadata"]["generation"] == 2


async def test_generation_without_a_status_subresource(api: Api) -> None:
    """Without the subresource every change but that of metadata counts."""
    name = f"g-{api.namespace}"
    (await api.create("gadgets", gadget(name, status={"a": 1}))).ok()
    changed = (await api.patch("gadgets", name, {"status": {"a": 2}})).ok()
    assert changed["metadata"]["generation"] == 2
    labelled = (await api.patch("gadgets", name, {"metadata": {"labels": {"x": "y"}}})).ok()
    assert labelled["metadata"]["generation"] == 2


async def test_config_maps_have_no_generation(api: Api) -> None:
    """Kinds without spec do not count generations."""
    assert "generation" not in (await api.create("configmaps", config_map("a"))).ok()["metadata"]


async def test_status_is_apart(api: Api) -> None:
    """A create or a write to the object cannot set status; a write to status sets nothing else."""
    body = widget("a", size=1) | {"status": {"phase": "made-up"}}
    created = (await api.create("widgets", body)).ok()
    assert "status" not in created
    main = (await api.patch("widgets", "a", {"spec": {"size": 2}, "status": {"phase": "x"}})).ok()
    assert "status" not in main
    patch = {"spec": {"size": 9}, "status": {"phase": "y"}}
    sub = (await api.patch("widgets", "a", patch, "status")).ok()
    assert (sub["spec"]["size"], sub["status"]) == (2, {"phase": "y"})
    whole = (await api.get("widgets", "a")).ok()
    whole["spec"]["size"] = 5
    whole["status"] = {"phase": "z"}
    put = (await api.update("widgets", whole, "status")).ok()
    assert (put["spec"]["size"], put["status"]) == (2, {"phase": "z"})
    assert (await api.get("widgets", "a", "status")).ok()["status"] == {"phase": "z"}


async def test_status_of_built_in_kinds_is_apart(api: Api) -> None:
    """Pods too: the phase moves only through the subresource."""
    created = (await api.create("pods", pod("a") | {"status": {"phase": "Running"}})).ok()
    assert created["status"]["phase"] == "Pending"
    moved = (await api.patch("pods", "a", {"status": {"phase": "Running"}}, "status")).ok()
    assert moved["status"]["phase"] == "Running"
    main = (await api.patch("pods", "a", {"status": {"phase": "Failed"}})).ok()
    assert main["status"]["phase"] == "Running"


async def test_metadata_through_status_changes_what_kubernetes_allows(api: Api) -> None:
    """Labels of a custom resource do not change through its status subresource."""
    (await api.create("widgets", widget("a"))).ok()
    patch = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "p"}}
    patched = (await api.patch("widgets", "a", patch, "status")).ok()
    assert patched["status"] == {"phase": "p"}
    assert "labels" not in patched["metadata"]


async def test_no_status_subresource_no_path(api: Api) -> None:
    """A kind without the subresource answers 404 at its path."""
    name = f"g-{api.namespace}"
    (await api.create("gadgets", gadget(name))).ok()
    assert (await api.get("gadgets", name, "status")).code == 404
    assert (await api.get("configmaps", "a", "status")).code == 404


def _bare(body: dict[str, object]) -> dict[str, object]:
    """Drop who wrote which field when: the embedded API keeps no such record."""
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    return body | {"metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
