"""The Pods that instances are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from boilerhouse.core import names
from boilerhouse.tenancy.instances.build import (
    agent_secret,
    cold_pod,
    template,
    template_hash,
    warm_pod,
)
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.workloads.model import WorkloadSpec

SETTINGS = Settings(product_image="product")
OWNER = {"apiVersion": "v1", "kind": "X", "name": "warm", "uid": "u"}


def spec(**changes: Any) -> WorkloadSpec:
    body = {
        "version": "1",
        "image": {"ref": "app:1"},
        "resources": {"vcpus": 0.5, "memoryMb": 256, "diskGb": 2},
        **changes,
    }
    return msgspec.convert(body, WorkloadSpec)


FULL = spec(
    network={"access": "unrestricted", "expose": [{"guest": 8080}, {"guest": 9090}]},
    filesystem={"overlayDirs": ["/workspace", "/home/me"]},
    health={"httpGet": {"port": 8080, "path": "/ok"}, "intervalSeconds": 2},
    entrypoint={"cmd": "/run", "args": ["a"], "workdir": "/w", "env": {"B": "2", "A": "1"}},
    hibernateWindowSeconds=60,
)


def test_the_whole_pod() -> None:
    """Every field of the Pod's spec is meant."""
    assert template("inst-x", FULL, SETTINGS) == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 60,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [
            {
                "name": "agent",
                "image": "product",
                "imagePullPolicy": "IfNotPresent",
                "args": ["agent"],
                "env": [{"name": "BOILERHOUSE_DISK_GB", "value": "2"}],
                "restartPolicy": "Always",
                "ports": [{"name": "agent", "containerPort": 7711}],
                "startupProbe": {
                    "httpGet": {"path": "/started", "port": 7711},
                    "periodSeconds": 1,
                    "failureThreshold": 3600,
                },
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": 7711},
                    "periodSeconds": 2,
                    "timeoutSeconds": 2,
                    "failureThreshold": 2,
                },
                "resources": {
                    "requests": {"cpu": "10m", "memory": "32Mi"},
                    "limits": {"cpu": "1", "memory": "64Mi"},
                },
                "securityContext": {
                    "runAsUser": 0,
                    "runAsGroup": 0,
                    "readOnlyRootFilesystem": True,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {
                        "drop": ["ALL"],
                        "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL"],
                    },
                },
                "volumeMounts": [
                    {"name": "identity", "mountPath": "/run/boilerhouse"},
                    {"name": "agent-state", "mountPath": "/var/lib/boilerhouse-agent"},
                    {
                        "name": "agent-token",
                        "mountPath": "/run/boilerhouse-agent",
                        "readOnly": True,
                    },
                    {"name": "overlay-0", "mountPath": "/overlay/workspace"},
                    {"name": "overlay-1", "mountPath": "/overlay/home/me"},
                ],
            }
        ],
        "containers": [
            {
                "name": "tenant",
                "image": "app:1",
                "imagePullPolicy": "IfNotPresent",
                "command": ["/run"],
                "args": ["a"],
                "workingDir": "/w",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 8080}, {"containerPort": 9090}],
                "resources": {
                    "requests": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "2Gi"},
                    "limits": {"cpu": "500m", "memory": "256Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "identity", "mountPath": "/run/boilerhouse", "readOnly": True},
                    {"name": "overlay-0", "mountPath": "/workspace"},
                    {"name": "overlay-1", "mountPath": "/home/me"},
                ],
                "readinessProbe": {
                    "httpGet": {"path": "/ok", "port": 8080},
                    "periodSeconds": 2,
                    "failureThreshold": 3,
                },
            }
        ],
        "volumes": [
            {"name": "identity", "emptyDir": {"medium": "Memory"}},
            {"name": "agent-state", "emptyDir": {}},
            {
                "name": "agent-token",
                "secret": {"secretName": "agent-inst-x", "defaultMode": 0o400},
            },
            {"name": "overlay-0", "emptyDir": {}},
            {"name": "overlay-1", "emptyDir": {}},
        ],
    }


def test_a_warm_pod_belongs_to_its_pool() -> None:
    """Labels of S1, its pool as owner, nobody's tenant."""
    pod = warm_pod("inst-x", "web", FULL, SETTINGS, pool="warm", owner=OWNER)
    assert pod["metadata"] == {
        "name": "inst-x",
        "labels": {
            "boilerhouse.dev/managed": "true",
            "boilerhouse.dev/workload": "web",
            "boilerhouse.dev/template": template_hash(FULL, SETTINGS),
            "boilerhouse.dev/network": "unrestricted",
            "boilerhouse.dev/pool": "warm",
            "boilerhouse.dev/pool-status": "warming",
        },
        "annotations": {"boilerhouse.dev/source": "pool"},
        "ownerReferences": [OWNER],
    }


def test_a_cold_pod_carries_its_claim_from_birth() -> None:
    """The fence is there before the Pod runs; no pool, no owner."""
    pod = cold_pod("inst-x", "web", FULL, SETTINGS, tenant="org:acme", claim="c/u")
    labels = pod["metadata"]["labels"]
    assert labels["boilerhouse.dev/tenant"] == names.label_value("org:acme")
    assert names.POOL not in labels
    assert pod["metadata"]["annotations"] == {
        "boilerhouse.dev/source": "cold",
        "boilerhouse.dev/claim": "c/u",
        "boilerhouse.dev/tenant-id": "org:acme",
    }
    assert "ownerReferences" not in pod["metadata"]


def test_a_cold_pod_with_a_past_waits_for_it() -> None:
    """The agent alone is told what to wait for; the blueprint's hash is that of any instance."""
    plain = cold_pod("inst-x", "web", FULL, SETTINGS, tenant="a", claim="c/u")
    pod = cold_pod("inst-x", "web", FULL, SETTINGS, tenant="a", claim="c/u", restore="d1")
    [agent] = pod["spec"]["initContainers"]
    assert agent["env"].pop() == {"name": "BOILERHOUSE_RESTORE", "value": "d1"}
    assert pod == plain


def test_the_token_is_in_a_secret_of_its_own() -> None:
    """Found by the Pod's name, swept by its label."""
    assert agent_secret("inst-x", "secret") == {
        "metadata": {"name": "agent-inst-x", "labels": {"boilerhouse.dev/agent": "true"}},
        "type": "Opaque",
        "stringData": {"token": "secret"},
        "immutable": True,
    }


@pytest.mark.parametrize(
    ("changes", "probe"),
    [
        ({}, None),
        (
            {"network": {"expose": [{"guest": 80}]}},
            {"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 3},
        ),
        (
            {"health": {"exec": {"command": ["ok"]}}},
            {"exec": {"command": ["ok"]}, "periodSeconds": 5, "failureThreshold": 3},
        ),
    ],
)
def test_readiness(changes: dict[str, Any], probe: dict[str, Any] | None) -> None:
    """Without health the first port must accept connections; without a port there is no probe."""
    (tenant,) = template("x", spec(**changes), SETTINGS)["containers"]
    assert tenant.get("readinessProbe") == probe


def test_the_hash_tells_blueprints_apart() -> None:
    """Whatever reaches the Pod changes it; the order of a map, the name and the version do not."""
    one = template_hash(FULL, SETTINGS)
    assert template_hash(spec(), SETTINGS) != one
    assert template_hash(FULL, Settings(product_image="other")) != one
    assert FULL.entrypoint is not None
    other_order = msgspec.structs.replace(FULL.entrypoint, env={"A": "1", "B": "2"})
    swapped = msgspec.structs.replace(FULL, entrypoint=other_order)
    assert template_hash(swapped, SETTINGS) == one
    assert len(one) == 12


@pytest.mark.parametrize("workload", ["w", "w" * 63])
@pytest.mark.parametrize("tenant", ["alice", "org:acme", "Ä" * 90, "-"])
def test_names_fit(workload: str, tenant: str) -> None:
    """A Pod's name is a DNS label, with room for the Secret's prefix."""
    for name in (
        names.warm_pod_name(workload, "rng"),
        names.cold_pod_name(tenant, workload, "uid", "7"),
    ):
        assert name.startswith("inst-")
        assert len(names.agent_secret_name(name)) <= names.NAME_LIMIT
        assert name.replace("-", "").isalnum()
        assert name == name.lower()
