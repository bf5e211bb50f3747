"""Discovery documents, in the forms that clients ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.describing.discovery import Discovery, version_rank
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.platform.kube.wire import Reply, Request
from tests.unit.embedded.apiserver.kinds import NAMESPACE, POD, WIDGET

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.fixture
def discovery() -> Discovery:
    return Discovery(Registry([WIDGET, POD, NAMESPACE]))


def ask(discovery: Discovery, path: str, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = discovery.answer(Request("GET", path, headers=named))
    assert reply is not None
    return reply


def read(discovery: Discovery, path: str, **headers: str) -> Any:
    return json.loads(ask(discovery, path, **headers).body)


def test_groups_and_versions_are_listed(discovery: Discovery) -> None:
    """/apis names every group with its versions and the preferred one; /apis/GROUP that one."""
    version = {"groupVersion": "demo.dev/v1alpha1", "version": "v1alpha1"}
    group = {"name": "demo.dev", "versions": [version], "preferredVersion": version}
    expected = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    assert read(discovery, "/apis") == expected
    assert read(discovery, "/apis/demo.dev") == {"kind": "APIGroup", "apiVersion": "v1", **group}
    assert read(discovery, "/api")["versions"] == ["v1"]


def test_resources_carry_names_verbs_and_subresources(discovery: Discovery) -> None:
    """A version's document says all that kubectl needs to address its resources."""
    own = {"namespaced": True, "kind": "Widget"}
    assert read(discovery, "/apis/demo.dev/v1alpha1") == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "demo.dev/v1alpha1",
        "resources": [
            {
                "name": "widgets",
                "singularName": "widget",
                **own,
                "verbs": [
                    "create",
                    "delete",
                    "deletecollection",
                    "get",
                    "list",
                    "patch",
                    "update",
                    "watch",
                ],
                "shortNames": ["wd"],
                "categories": ["all"],
            },
            {
                "name": "widgets/status",
                "singularName": "",
                **own,
                "verbs": ["get", "patch", "update"],
            },
            {
                "name": "widgets/scale",
                "singularName": "",
                "namespaced": True,
                "group": "autoscaling",
                "version": "v1",
                "kind": "Scale",
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


def test_namespaces_cannot_be_deleted_as_a_collection(discovery: Discovery) -> None:
    """As on a real server, the verb is not offered."""
    resources = {r["name"]: r for r in read(discovery, "/api/v1")["resources"]}
    assert "deletecollection" not in resources["namespaces"]["verbs"]
    assert resources["namespaces"]["namespaced"] is False
    assert resources["pods/eviction"]["group"] == "policy"


@pytest.mark.parametrize("form", ["v2", "v2beta1"])
def test_everything_comes_in_one_document_for_who_asks(discovery: Discovery, form: str) -> None:
    """Aggregated discovery: the content type repeats what was asked for, the body has it all."""
    accept = f"{AGGREGATED.format(form)},application/json"
    reply = ask(discovery, "/apis", accept=accept)
    assert reply.headers["content-type"] == AGGREGATED.format(form)
    document = json.loads(reply.body)
    assert document["apiVersion"] == f"apidiscovery.k8s.io/{form}"
    (group,) = document["items"]
    assert group["metadata"] == {"name": "demo.dev"}
    (version,) = group["versions"]
    (widgets,) = version["resources"]
    assert (version["version"], version["freshness"]) == ("v1alpha1", "Current")
    assert widgets["responseKind"] == {
        "group": "demo.dev",
        "version": "v1alpha1",
        "kind": "Widget",
    }
    assert [s["subresource"] for s in widgets["subresources"]] == ["status", "scale"]
    (core,) = read(discovery, "/api", accept=accept)["items"]
    assert [r["resource"] for r in core["versions"][0]["resources"]] == ["namespaces", "pods"]


def test_an_unknown_form_falls_back_to_the_next_accepted_one(discovery: Discovery) -> None:
    """A client of the future gets the plain document it also accepts."""
    reply = ask(discovery, "/apis", accept=f"{AGGREGATED.format('v3')}, application/json")
    assert reply.headers["content-type"] == "application/json"
    assert json.loads(reply.body)["kind"] == "APIGroupList"


def test_documents_are_live_and_known_ones_cost_a_304(discovery: Discovery) -> None:
    """The ETag moves with the registry, and only with it."""
    registry = Registry([POD])
    discovery = Discovery(registry)
    assert discovery.answer(Request("GET", "/apis/demo.dev/v1alpha1")) is None
    first = ask(discovery, "/apis")
    assert ask(discovery, "/apis", if_none_match=first.headers["etag"]).status == 304
    registry.install(WIDGET)
    second = ask(discovery, "/apis", if_none_match=first.headers["etag"])
    assert second.status == 200
    assert read(discovery, "/apis/demo.dev/v1alpha1")["resources"]
    registry.remove(WIDGET.resource)
    assert ask(discovery, "/apis").headers["etag"] == first.headers["etag"]


def test_other_paths_are_not_answered(discovery: Discovery) -> None:
    """Objects, unknown groups and writes are somebody else's business."""
    for path in ("/api/v1/pods", "/apis/none.dev", "/apis/demo.dev/v9", "/nothing", "/apis/a/b/c"):
        assert discovery.answer(Request("GET", path)) is None
    assert discovery.answer(Request("POST", "/apis")) is None


def test_the_version_is_the_kubernetes_we_compare_with(discovery: Discovery) -> None:
    """kubectl version shows the Kubernetes minor and that it is us."""
    version = read(discovery, "/version")
    assert (version["major"], version["minor"]) == ("1", "34")
    assert version["gitVersion"].endswith("+boilerhouse")


def test_readiness_is_told() -> None:
    """/readyz fails while the server is not ready; the process itself is alive."""
    discovery = Discovery(Registry(), unready=lambda: ["x fails"])
    assert ask(discovery, "/readyz").status == 503
    assert ask(discovery, "/livez").body == b"ok"


def test_versions_are_ordered_by_stability_then_age() -> None:
    """Preferred is the newest stable version."""
    versions = ["v1alpha1", "v1beta1", "v2beta1", "v1", "v10", "v2", "foo"]
    expected = ["v10", "v2", "v1", "v2beta1", "v1beta1", "v1alpha1", "foo"]
    assert sorted(versions, key=version_rank) == expected
