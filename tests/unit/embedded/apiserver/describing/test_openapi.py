"""OpenAPI documents: what kubectl looks for in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.describing.openapi import OpenApi
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.platform.kube.status import NotAcceptable, NotFound
from boilerhouse.platform.kube.wire import Reply, Request
from tests.unit.embedded.apiserver.kinds import DEFINITIONS, NAMESPACE, POD, WIDGET


@pytest.fixture
def registry() -> Registry:
    return Registry([WIDGET, POD, NAMESPACE])


@pytest.fixture
def openapi(registry: Registry) -> OpenApi:
    return OpenApi(registry, DEFINITIONS)


def ask(openapi: OpenApi, address: str, **headers: str) -> Reply:
    path, _, query = address.partition("?")
    pairs = tuple((k, v) for k, _, v in (p.partition("=") for p in query.split("&") if p))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = openapi.answer(Request("GET", path, pairs, named))
    assert reply is not None
    return reply


def read(openapi: OpenApi, address: str) -> Any:
    return json.loads(ask(openapi, address).body)


def address(openapi: OpenApi, name: str) -> str:
    url: str = read(openapi, "/openapi/v3")["paths"][name]["serverRelativeURL"]
    return url


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


def test_the_index_names_every_group_and_version(openapi: OpenApi) -> None:
    """Addresses carry a hash, and what they lead to may be kept for ever."""
    assert set(read(openapi, "/openapi/v3")["paths"]) == {"api/v1", "apis/demo.dev/v1alpha1"}
    url = address(openapi, "apis/demo.dev/v1alpha1")
    assert ask(openapi, url).headers["cache-control"] == "public, immutable"
    bare = ask(openapi, url.partition("?")[0])
    assert bare.headers["cache-control"] == "no-cache, private"
    assert ask(openapi, url, if_none_match=bare.headers["etag"]).status == 304


def test_the_hash_moves_only_with_the_group_that_changed(
    openapi: OpenApi, registry: Registry
) -> None:
    """A new kind in one group leaves other groups' cached documents valid."""
    core, demo = address(openapi, "api/v1"), address(openapi, "apis/demo.dev/v1alpha1")
    registry.remove(NAMESPACE.resource)
    assert address(openapi, "api/v1") != core
    assert address(openapi, "apis/demo.dev/v1alpha1") == demo


def test_a_kind_is_found_by_its_type_with_its_descriptions(openapi: OpenApi) -> None:
    """kubectl explain finds the schema by group, version and kind, and shows our descriptions."""
    schemas = read(openapi, address(openapi, "apis/demo.dev/v1alpha1"))["components"]["schemas"]
    widget = schemas["dev.demo.v1alpha1.Widget"]
    assert widget["x-kubernetes-group-version-kind"] == [
        {"group": "demo.dev", "version": "v1alpha1", "kind": "Widget"}
    ]
    assert widget["description"] == "A thing that is made."
    assert widget["required"] == ["spec"]
    assert widget["properties"]["spec"]["properties"]["count"]["description"] == "How many."
    (metadata,) = widget["properties"]["metadata"]["allOf"]
    assert "labels" in schemas[metadata["$ref"].rsplit("/", 1)[1]]["properties"]


def test_patch_says_that_fields_are_checked_and_which_patches_are_taken(openapi: OpenApi) -> None:
    """kubectl apply validates on the server when PATCH has fieldValidation."""
    paths = read(openapi, address(openapi, "apis/demo.dev/v1alpha1"))["paths"]
    patch = paths["/apis/demo.dev/v1alpha1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Widget"
    assert {p["name"] for p in patch["parameters"]} >= {"fieldValidation", "dryRun"}
    assert set(patch["requestBody"]["content"]) == {
        "application/json-patch+json",
        "application/merge-patch+json",
    }
    core = read(openapi, address(openapi, "api/v1"))["paths"]
    patch = core["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_paths_are_those_of_the_kind(openapi: OpenApi) -> None:
    """Namespaced kinds can be listed across namespaces; subresources are there when the kind has
    them."""
    root = "/apis/demo.dev/v1alpha1"
    paths = read(openapi, address(openapi, "apis/demo.dev/v1alpha1"))["paths"]
    inside = root + "/namespaces/{namespace}/widgets"
    assert set(paths) == {
        root + "/widgets",
        inside,
        inside + "/{name}",
        inside + "/{name}/scale",
        inside + "/{name}/status",
    }
    core = read(openapi, address(openapi, "api/v1"))["paths"]
    assert "delete" not in core["/api/v1/namespaces"]
    assert "/api/v1/namespaces/{name}" in core


@pytest.mark.parametrize("name", ["api/v1", "apis/demo.dev/v1alpha1"])
def test_every_reference_leads_somewhere(openapi: OpenApi, name: str) -> None:
    """A document stands alone: kubectl gives up on one dangling reference."""
    document = read(openapi, address(openapi, name))
    schemas = document["components"]["schemas"]
    targets = set(references(document))
    assert targets
    assert {t.removeprefix("#/components/schemas/") for t in targets} <= set(schemas)


def test_what_is_not_spoken_is_refused_by_name(openapi: OpenApi) -> None:
    """Other versions, protobuf and unknown groups have clear answers; other paths are not ours."""
    with pytest.raises(NotFound, match="/openapi/v3"):
        openapi.answer(Request("GET", "/openapi/v1"))
    with pytest.raises(NotFound):
        openapi.answer(Request("GET", "/openapi/v3/apis/none.dev/v1"))
    protobuf = {"accept": "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"}
    with pytest.raises(NotAcceptable):
        openapi.answer(Request("GET", "/openapi/v3/api/v1", headers=protobuf))
    assert openapi.answer(Request("GET", "/api/v1")) is None


def test_version_2_is_there_and_describes_nothing(openapi: OpenApi) -> None:
    """kubectl asks for it as protobuf when it meets a List; everybody else gets it as JSON."""
    wanted = {
        "swagger": "2.0",
        "info": {"title": "Boilerhouse: embedded Kubernetes API", "version": "v1"},
        "paths": {},
    }
    assert read(openapi, "/openapi/v2") == wanted
    media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    reply = ask(openapi, "/openapi/v2", accept=f"{media}, application/json")
    assert reply.headers["content-type"] == media.replace("@", ".")
    title = b"Boilerhouse: embedded Kubernetes API"
    info = b"\x0a" + bytes([len(title)]) + title + b"\x12\x02v1"
    assert reply.body == b"\x0a\x032.0\x12" + bytes([len(info)]) + info + b"\x42\x00"
    with pytest.raises(NotAcceptable):
        ask(openapi, "/openapi/v2", accept="text/html")
