"""A resource becomes a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cel
import pytest

from boilerhouse.core.crd import CustomResource
from boilerhouse.operator.catalogue import RESOURCES
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import of

EACH = pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)

NAMES = {
    "BoilerhouseWorkload": ("boilerhouseworkloads", "bhw", ["Phase", "Version", "Image", "Age"]),
    "BoilerhousePool": ("boilerhousepools", "bhp", ["Workload", "Size", "Ready", "Phase", "Age"]),
    "BoilerhouseClaim": (
        "boilerhouseclaims",
        "bhc",
        ["Tenant", "Workload", "Phase", "Source", "Instance", "Endpoint", "Age"],
    ),
    "BoilerhouseTrigger": ("boilerhousetriggers", "bht", ["Type", "Workload", "Phase", "Age"]),
}


@EACH
def test_names_and_columns(resource: CustomResource) -> None:
    """Each kind has its names, its columns, and a status of its own."""
    crd = resource.crd()
    plural, short, columns = NAMES[resource.kind]
    assert crd["metadata"]["name"] == f"{plural}.boilerhouse.dev"
    assert crd["spec"]["names"] == {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": plural,
        "singular": resource.kind.lower(),
        "shortNames": [short],
        "categories": ["boilerhouse"],
    }
    (version,) = crd["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns
    assert version["subresources"]["status"] == {}


def test_only_pools_scale() -> None:
    """`kubectl scale` works on a pool and on nothing else."""
    scales = {
        resource.kind: resource.crd()["spec"]["versions"][0]["subresources"].get("scale")
        for resource in RESOURCES
    }
    assert scales.pop("BoilerhousePool") == {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.ready",
        "labelSelectorPath": ".status.selector",
    }
    assert set(scales.values()) == {None}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every node of a schema with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}.{name}")


@EACH
def test_every_field_is_explained(resource: CustomResource) -> None:
    """`kubectl explain` has a sentence for every field of ours."""
    silent = [
        f"{path}.{name}"
        for path, node in nodes(resource.schema())
        for name, child in node.get("properties", {}).items()
        if not child.get("description") and not f"{path}.{name}".startswith(".metadata")
    ]
    assert silent == []


@EACH
def test_schema_is_structural(resource: CustomResource) -> None:
    """One type per node, no references, no unions, no titles, no boolean additionalProperties."""
    for path, node in nodes(resource.schema()):
        assert node["type"] in {"object", "array", "string", "integer", "number", "boolean"}, path
        assert not set(node) & {"$ref", "anyOf", "allOf", "oneOf", "title", "nullable"}, path
        assert not isinstance(node.get("additionalProperties"), bool), path
        if "default" in node and node["type"] == "object":
            assert set(node["default"]) <= set(node["properties"]), path


@EACH
def test_specs_are_bounded(resource: CustomResource) -> None:
    """Every list, map, text and number of a spec has a limit: rules have a cost, objects a size."""
    limits = {
        "array": {"maxItems"},
        "string": {"maxLength", "enum"},
        "integer": {"maximum"},
        "number": {"maximum"},
    }
    for path, node in nodes(resource.schema()["properties"]["spec"]):
        if wanted := limits.get(node["type"]):
            assert wanted & set(node), path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


@EACH
def test_every_rule_compiles_with_few_functions(resource: CustomResource) -> None:
    """Rules use only what a real API server and the embedded one both have."""
    known = {"has", "size", "startsWith", "matches", "bytes", "all", "exists", "exists_one"}
    for path, node in nodes(resource.schema()):
        for rule in node.get("x-kubernetes-validations", []):
            used = {name for name in cel.compile(rule["rule"]).functions() if name.isidentifier()}
            assert used <= known, (path, used)


def test_a_kind_of_another_group() -> None:
    """Its definition, its objects' apiVersion and its paths follow the group it carries."""
    engines = replace(RESOURCES[1], group="compute.example.com", version="v1beta1")
    definition = engines.crd()
    assert definition["metadata"]["name"] == "boilerhousepools.compute.example.com"
    assert definition["spec"]["group"] == "compute.example.com"
    assert [version["name"] for version in definition["spec"]["versions"]] == ["v1beta1"]
    assert engines.api_version == of(engines, Dynamic).api_version == "compute.example.com/v1beta1"
    path = "/apis/compute.example.com/v1beta1/namespaces/n/boilerhousepools/a"
    assert of(engines, Dynamic).path("n", "a") == path
