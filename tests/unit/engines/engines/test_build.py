"""The objects of an engine, field by field."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from boilerhouse.engines.engines import build
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.names import ENGINE_FINALIZER
from boilerhouse.engines.profile import FIREBOLT
from tests.unit.engines.engines.reading import ENGINE, INSTANCE, klass, made, spec
from tests.unit.engines.engines.seeing import NOW, P

LABELS = {"firebolt.io/engine": "e", "firebolt.io/generation": "4"}


def pod_of(*args: Any) -> dict[str, Any]:
    template: dict[str, Any] = build.statefulset(ENGINE, made(*args), 4)["spec"]["template"]
    return template


def server_of(*args: Any) -> dict[str, Any]:
    server: dict[str, Any] = pod_of(*args)["spec"]["containers"][0]
    return server


def test_everything_belongs_to_the_engine() -> None:
    """By a reference that holds it back, and by labels."""
    for body in (
        build.configmap(ENGINE, made(), 4),
        build.headless(ENGINE, made(), 4),
        build.budget(ENGINE, 4),
        build.statefulset(ENGINE, made(), 4),
        build.service(ENGINE, FIREBOLT, 4),
    ):
        (owner,) = body["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "compute.firebolt.io/v1alpha1",
            "kind": "FireboltEngine",
            "name": "e",
            "uid": "uid-e",
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert body["metadata"]["namespace"] == "ns"
        assert body["metadata"]["labels"]["firebolt.io/engine"] == "e"


def test_the_configuration_names_every_pod() -> None:
    """Therefore another number of replicas is another generation."""
    body = build.configmap(ENGINE, made(spec(replicas=2)), 4)
    assert body["metadata"]["name"] == "e-g4-config"
    assert yaml.safe_load(body["data"]["config.yaml"]) == {
        "schema_version": "1.0",
        "instance": {
            "id": INSTANCE.id,
            "type": "multi_engine",
            "multi_engine": {"metadata_endpoint": INSTANCE.endpoint},
        },
        "engine": {
            "id": "e",
            "nodes": [
                {"host": "e-g4-0.e-g4-hl.ns.svc.cluster.local"},
                {"host": "e-g4-1.e-g4-hl.ns.svc.cluster.local"},
            ],
            "termination_grace_period": "55s",
        },
        "logging": {"format": "json"},
    }


def test_custom_configuration_lies_over_the_operators() -> None:
    of = spec(customEngineConfig={"logging": {"format": "text"}, "engine": {"x": 1, "id": "y"}})
    config = yaml.safe_load(build.configmap(ENGINE, made(of), 4)["data"]["config.yaml"])
    assert config["logging"] == {"format": "text"}
    assert config["engine"]["x"] == 1 and config["engine"]["id"] == "e"


def test_the_same_spec_gives_the_same_bytes() -> None:
    """Keys in another order change nothing."""
    one = made(spec(customEngineConfig={"a": 1, "b": {"c": 1, "d": 2}}))
    other = made(spec(customEngineConfig={"b": {"d": 2, "c": 1}, "a": 1}))
    assert build.configmap(ENGINE, one, 4) == build.configmap(ENGINE, other, 4)
    assert build.statefulset(ENGINE, one, 4) == build.statefulset(ENGINE, other, 4)


def test_services() -> None:
    """Both headless; only the generation's own publishes Pods that are not ready."""
    own, clients = build.headless(ENGINE, made(), 4), build.service(ENGINE, FIREBOLT, 4)
    assert own["metadata"]["name"] == "e-g4-hl" and clients["metadata"]["name"] == "e-service"
    assert own["metadata"]["labels"] == LABELS
    assert clients["metadata"]["labels"] == {"firebolt.io/engine": "e"}
    for body, unready in ((own, True), (clients, False)):
        assert body["spec"]["clusterIP"] == "None"
        assert body["spec"]["selector"] == LABELS
        assert body["spec"]["publishNotReadyAddresses"] is unready
        assert [port["port"] for port in body["spec"]["ports"]] == [3473, 8122, 9090]


def test_one_pod_at_a_time_may_be_evicted() -> None:
    body = build.budget(ENGINE, 4)
    assert body["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}


def test_the_statefulset_says_what_it_was_made_of() -> None:
    """The page's two hashes, ours, and what each input was."""
    whole = made(
        spec(customEngineConfig={"a": 1}), klass(template={"metadata": {"labels": {"x": "y"}}})
    )
    stamps = build.statefulset(ENGINE, whole, 4)["metadata"]["annotations"]
    assert stamps["firebolt.io/custom-engine-config-hash"] == whole.config_hash
    assert stamps["firebolt.io/engine-class-hash"] == whole.class_hash
    assert stamps["firebolt.io/render-hash"] == whole.wanted.hash
    assert '"replicas":' in stamps["firebolt.io/render-inputs"]
    assert stamps["firebolt.io/renderer"] == build.RENDERER
    plain = build.stamps(made())
    assert "firebolt.io/engine-class-hash" not in plain
    assert "firebolt.io/custom-engine-config-hash" not in plain


def test_the_statefulset() -> None:
    body = build.statefulset(ENGINE, made(spec(replicas=3)), 4)
    assert body["metadata"]["name"] == "e-g4"
    assert body["metadata"]["labels"] == body["spec"]["selector"]["matchLabels"] == LABELS
    assert body["spec"]["replicas"] == 3
    assert body["spec"]["serviceName"] == "e-g4-hl"
    assert body["spec"]["podManagementPolicy"] == "Parallel"
    assert body["spec"]["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Delete",
        "whenScaled": "Retain",
    }
    assert "volumeClaimTemplates" not in body["spec"]


def test_the_pod_is_hardened() -> None:
    pod = pod_of()["spec"]
    assert pod["terminationGracePeriodSeconds"] == 60
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 3473
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    server = server_of()
    assert server["name"] == "engine"
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_server_is_probed_and_knows_its_ordinal() -> None:
    server = server_of()
    assert server["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert server["livenessProbe"]["failureThreshold"] == 6
    assert server["startupProbe"]["failureThreshold"] == 30
    assert server["env"][0]["valueFrom"]["fieldRef"] == {
        "apiVersion": "v1",
        "fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']",
    }
    assert server["env"][1] == {"name": "FB_AWS_EC2_METADATA_CLIENT_ENABLED", "value": "true"}
    assert server["command"][0] == "/firebolt-core/firebolt"
    assert [port["containerPort"] for port in server["ports"]] == [3473, 8122, 9090]


def test_layers_lie_over_each_other() -> None:
    """Lists: the operator's, the class's, the engine's. The labels are the operator's."""

    def layer(name: str) -> dict[str, Any]:
        server = {"name": "engine", "env": [{"name": name.upper()}], "workingDir": f"/{name}"}
        return {
            "metadata": {"labels": {"who": name}},
            "spec": {"volumes": [{"name": name}], "containers": [server, {"name": f"side-{name}"}]},
        }

    pod = pod_of(spec(template=layer("e")), klass(template=layer("c")))
    assert pod["metadata"]["labels"] == {"who": "e", **LABELS}
    names = [volume["name"] for volume in pod["spec"]["volumes"]]
    assert names == ["engine-config", "data", "runtime", "c", "e"]
    server, *others = pod["spec"]["containers"]
    assert [one["name"] for one in others] == ["side-c", "side-e"]
    assert [one["name"] for one in server["env"]][-2:] == ["C", "E"]
    assert server["workingDir"] == "/e"


@pytest.mark.parametrize(
    ("storage", "volume"),
    [
        (None, {"name": "data", "emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"name": "data", "emptyDir": {"medium": "Memory"}}),
        ({"hostPath": {"path": "/d"}}, {"name": "data", "hostPath": {"path": "/d"}}),
    ],
)
def test_storage_of_the_pod(storage: Any, volume: dict[str, Any]) -> None:
    assert volume in pod_of(spec(storage=storage))["spec"]["volumes"]


def test_storage_of_its_own() -> None:
    of = spec(storage={"persistentVolumeClaim": {"size": "5Gi", "storageClassName": "fast"}})
    body = build.statefulset(ENGINE, made(of), 4)
    (claim,) = body["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }
    names = [volume["name"] for volume in body["spec"]["template"]["spec"]["volumes"]]
    assert names == ["engine-config", "runtime"]
    of = spec(storage={"persistentVolumeClaim": {}})
    (claim,) = build.statefulset(ENGINE, made(of), 4)["spec"]["volumeClaimTemplates"]
    assert "storageClassName" not in claim["spec"]


def test_another_server() -> None:
    """No file, its own command, a connection as its probe, and no other probes."""
    profile = {
        "container": "vllm",
        "image": "vllm:1",
        "commandPolicy": "user",
        "config": {"format": "none"},
        "ports": [{"name": "http", "port": 8000, "role": "query"}],
        "probes": {"ready": {"port": 8000}},
        "env": [],
    }
    by = klass(profile=profile)
    server = server_of(spec(), by)
    assert server["name"] == "vllm" and server["image"] == "vllm:1"
    assert "command" not in server and "livenessProbe" not in server
    assert server["readinessProbe"]["tcpSocket"] == {"port": 8000}
    assert [mount["name"] for mount in server["volumeMounts"]] == ["data", "runtime"]
    assert [volume["name"] for volume in pod_of(spec(), by)["spec"]["volumes"]] == [
        "data",
        "runtime",
    ]
    assert build.configmap(ENGINE, made(spec(), by), 4)["data"] == {}
    template = {"spec": {"containers": [{"name": "vllm", "command": ["serve"]}]}}
    assert server_of(spec(template=template), by)["command"] == ["serve"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("host:5000/a:dev", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
    ],
)
def test_images_whose_tag_moves_are_pulled_each_time(image: str, policy: str) -> None:
    assert build.pull_policy(image) == policy


def test_the_finalizer_comes_and_goes_alone() -> None:
    of = replace(ENGINE, finalizers=("other",))
    as_seen = {"uid": "uid-e", "resourceVersion": "7"}
    assert build.finalizers_patch(of, held=True) == {
        "metadata": {**as_seen, "finalizers": ["other", ENGINE_FINALIZER]}
    }
    assert build.finalizers_patch(replace(ENGINE, finalizers=(ENGINE_FINALIZER,)), held=False) == {
        "metadata": {**as_seen, "finalizers": None}
    }


def test_a_status_is_written_with_its_numbers() -> None:
    """The first generation is 0: told, not left out."""
    status = EngineStatus(phase=P.CREATING, current_render_hash="a", current_since=NOW)
    patch = build.status_patch(ENGINE, status)
    assert patch["metadata"] == {"uid": "uid-e", "resourceVersion": "7"}
    assert patch["status"] == {
        "currentRenderHash": "a",
        "currentSince": "2026-05-01T12:00:00Z",
        "currentGeneration": 0,
        "activeGeneration": -1,
        "replicas": 0,
        "readyReplicas": 0,
    }
    before = replace(ENGINE, status=replace(status, draining_generation=0))
    assert build.status_patch(before, status)["status"]["drainingGeneration"] is None
