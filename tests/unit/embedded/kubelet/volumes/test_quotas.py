"""Which directories of a Pod have a quota. Real quotas: tests/security/test_disk_quotas.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.kubelet.node.nodeobject import node_status
from boilerhouse.embedded.kubelet.objects.room import Requests
from boilerhouse.embedded.kubelet.volumes.quotas import Quotas
from boilerhouse.embedded.kubelet.volumes.volumes import Volume, writable_directories

TENANT: dict[str, Any] = {
    "name": "tenant",
    "volumeMounts": [
        {"name": "identity", "mountPath": "/identity", "readOnly": True},
        {"name": "overlay-0", "mountPath": "/home"},
        {"name": "fast", "mountPath": "/fast"},
        {"name": "claim", "mountPath": "/claim"},
    ],
}
SPEC: dict[str, Any] = {
    "containers": [TENANT],
    "volumes": [
        {"name": "identity", "emptyDir": {}},
        {"name": "agent-state", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "overlay-0", "emptyDir": {}},
    ],
}


def test_only_what_the_tenant_writes_has_a_quota() -> None:
    """Neither the agent's state nor memory, nor what it may only read, nor what outlives it."""
    assert writable_directories(SPEC, [TENANT]) == ["overlay-0"]


async def test_without_quotas_there_is_a_reason_and_nothing_is_touched(tmp_path: Path) -> None:
    """A temporary directory of a test has none."""
    quotas = Quotas.open(tmp_path)
    assert quotas.unavailable
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    agent = {"name": "agent", "restartPolicy": "Always"}
    spec = {**SPEC, "initContainers": [agent]}
    volumes = {"overlay-0": Volume(tmp_path / "o", read_only=False)}
    assert await quotas.of_accompanied(os.getuid(), spec, [TENANT], volumes, tmp_path) is None
    quotas.clear(1)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_file_system_that_refuses_leaves_the_pod_without(tmp_path: Path) -> None:
    """Its tenant is frozen at its limit instead: a quota is no reason not to start."""
    quotas = Quotas(tmp_path, "")
    (tmp_path / "o").mkdir()
    volumes = {"overlay-0": Volume(tmp_path / "o", read_only=False)}
    of_others = await quotas.of_accompanied(os.getuid(), SPEC, [TENANT], volumes, tmp_path)
    assert of_others is None and not (tmp_path / "roots").exists()
    spec = {**SPEC, "initContainers": [{"name": "agent", "restartPolicy": "Always"}]}
    assert await quotas.of_accompanied(1_900_000_001, spec, [TENANT], volumes, tmp_path) is None
    quotas.clear(1_900_000_001)


def test_the_node_says_whether_there_are_quotas() -> None:
    """And why not."""
    room = Requests(parse("1"), parse("1Gi"), parse("1Gi"), 10)
    for no_quotas, told in (("", ("True", "QuotasEnforced")), ("why", ("False", "NoQuotas"))):
        status = node_status({}, room, None, "", "now", no_quotas=no_quotas)
        [stated] = [one for one in status["conditions"] if one["type"] == "DiskQuotas"]
        assert (stated["status"], stated["reason"]) == told
        assert stated["message"].startswith(no_quotas)
