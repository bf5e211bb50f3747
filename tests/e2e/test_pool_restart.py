"""Warm instances that were there before `up` was restarted.

up ─► pool full ─► stopped, or killed ─► up ─► the same Pods ─► pool+data
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import PODS
from tests.e2e.snapshots_fixture import Home, on_this_machine, soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def warm(home: Home) -> set[str]:
    """Return the UIDs of the Pods that wait for a tenant."""

    async def asked(client: Client) -> set[str]:
        found = await client.list(PODS, labels={names.POOL_STATUS: names.READY})
        return {pod.metadata.uid for pod in found.items if pod.ready}

    return home.kube(asked)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_pool_from_before_a_restart_takes_tenants_with_files(
    tmp_path: Path, end: signal.Signals
) -> None:
    """The Pods are the same as before, they are given away with files in them, and at once."""
    with on_this_machine(tmp_path, end) as home:
        home.workload("files")
        first = home.claim("alice", "files", "cold")
        home.sh(first, "echo kept > /workspace/f")
        home.released("alice", "files")
        home.pool("files", size=2)
        before = warm(home)
    with on_this_machine(tmp_path) as home:
        soon("the Pods of before are ready", lambda: warm(home) == before)
        revived = home.claim("alice", "files", "pool+data")
        assert home.sh(revived, "cat /workspace/f") == "kept\n"
        pod = home.pod(revived)
        assert pod is not None and pod.metadata.uid in before
