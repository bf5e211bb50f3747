"""The three kinds as an API server sees them: schemas, columns, rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from boilerhouse.core.problems import problems
from boilerhouse.core.schema import structural
from boilerhouse.embedded.apiserver.crd.rules import crd_causes
from boilerhouse.engines.classes import model as classes
from boilerhouse.engines.classes.model import ClassSpec, ClassStatus
from boilerhouse.engines.engines.model import RESOURCE as ENGINE
from boilerhouse.engines.engines.model import EngineSpec, EngineStatus
from boilerhouse.engines.instances.model import RESOURCE as INSTANCE
from boilerhouse.engines.instances.model import InstanceSpec

LEAST: dict[str, Any] = {"instanceRef": "i", "replicas": 1}
CLASS: dict[str, Any] = {"template": {}}
INSTANCE_LEAST: dict[str, Any] = {"metadata": {}, "gateway": {}}


def refusals(body: dict[str, Any]) -> list[Any]:
    """Ask an API server about a definition, as it comes over the wire."""
    stored = {**body, "status": {"storedVersions": ["v1alpha1"]}}
    return list(crd_causes(msgspec.json.decode(msgspec.json.encode(stored))))


@pytest.mark.parametrize("resource", [ENGINE, INSTANCE], ids=lambda one: one.kind)
def test_an_api_server_takes_the_definition(resource: Any) -> None:
    """The schema is structural, its rules are affordable, its paths exist."""
    assert refusals(resource.crd()) == []
    assert resource.api_version == "compute.firebolt.io/v1alpha1"


def test_an_api_server_takes_the_schema_of_a_class() -> None:
    """A class has no lifecycle, so its definition is tried in that of an engine."""
    body = ENGINE.crd()
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = structural(ClassSpec)
    assert refusals(body) == []
    assert "phase" not in structural(ClassStatus)["properties"]


def test_columns_and_short_names() -> None:
    """`kubectl get` shows what the research lists."""
    titles = [column.title for column in ENGINE.columns]
    assert titles == ["Replicas", "Phase", "Ready", "Generation"]
    assert [column.title for column in classes.COLUMNS] == ["Bound", "Ready"]
    assert (ENGINE.short_name, INSTANCE.short_name, classes.SHORT_NAME) == (
        "fireng",
        "fire",
        "firengc",
    )


def test_an_engine_is_born_creating_without_an_active_generation() -> None:
    """Before anything was written: generation 0 is wanted, none serves."""
    status = msgspec.convert({"phase": "creating"}, EngineStatus)
    assert (status.phase, status.current_generation, status.active_generation) == (
        "creating",
        0,
        -1,
    )
    assert status.draining_generation is None


def test_conditions_are_one_per_type() -> None:
    conditions = structural(EngineStatus)["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_nothing_that_a_class_may_say_has_a_default() -> None:
    """A default would hide the class's value."""
    for name, schema in structural(EngineSpec)["properties"].items():
        assert "default" not in schema, name


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        ({}, []),
        ({"replicas": 0}, []),
        ({"replicas": -1}, ["spec.replicas"]),
        ({"replicas": 10_000}, ["spec.replicas"]),
        ({"instanceRef": ""}, ["spec.instanceRef"]),
        ({"instanceRef": None}, ["spec.instanceRef"]),
        ({"instanceRef": None, "engineClassRef": "c"}, []),
        ({"rollout": "recreate"}, []),
        ({"rollout": "rolling"}, ["spec.rollout"]),
        ({"drainCheckInterval": "1m30s"}, []),
        ({"drainCheckInterval": "5"}, ["spec.drainCheckInterval"]),
        ({"drainTimeoutAction": "abort"}, ["spec.drainTimeoutAction"]),
        ({"progressDeadline": "10m", "progressDeadlineAction": "abort"}, []),
        ({"uiSidecar": True}, ["spec.uiSidecar"]),
        ({"autoStop": {"enabled": True}}, ["spec.autoStop"]),
        ({"storage": {}}, []),
        ({"storage": {"persistentVolumeClaim": {}}}, []),
        ({"storage": {"persistentVolumeClaim": {}, "emptyDir": {}}}, ["spec.storage"]),
        ({"storage": {"hostPath": {"path": "data"}}}, ["spec.storage.hostPath.path"]),
        ({"storage": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}}, []),
        ({"template": {"spec": {"anything": 1}}, "customEngineConfig": {"a": {"b": [1]}}}, []),
    ],
)
def test_specs_of_engines(changes: dict[str, Any], blamed: list[str]) -> None:
    """Each mistake is blamed on its field."""
    raw = {key: value for key, value in {**LEAST, **changes}.items() if value is not None}
    assert [sentence.split(":")[0] for sentence in problems(EngineSpec, raw)] == blamed


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        ({}, []),
        ({"profile": {"container": "vllm", "instance": "none"}}, []),
        ({"profile": {"data": "durable"}}, ["spec.profile.data"]),
        ({"autoStop": {}}, ["spec.autoStop"]),
    ],
)
def test_specs_of_classes(changes: dict[str, Any], blamed: list[str]) -> None:
    found = problems(ClassSpec, {**CLASS, **changes})
    assert [sentence.split(":")[0] for sentence in found] == blamed


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        ({}, []),
        ({"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, []),
        ({"id": "01ARZ3NDEKTSV4RRFFQ69G5FAU"}, ["spec.id"]),
        ({"metadata": {"replicas": 2}}, ["spec.metadata.replicas"]),
        ({"auth": {"enabled": True}}, ["spec.auth"]),
        ({"tls": {}}, ["spec.tls"]),
        ({"gateway": {"replicas": 3, "metricsPort": 9090}}, []),
        ({"gateway": {"template": {}}}, ["spec.gateway.template"]),
        ({"metricScrapeMode": "ApiserverProxy"}, []),
    ],
)
def test_specs_of_instances(changes: dict[str, Any], blamed: list[str]) -> None:
    found = problems(InstanceSpec, {**INSTANCE_LEAST, **changes})
    assert [sentence.split(":")[0] for sentence in found] == blamed
