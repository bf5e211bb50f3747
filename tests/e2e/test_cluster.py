"""The node itself: bringing it up may be repeated, and survives a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from cluster import leftovers, node
from cluster.nodeconfig import NodeFiles

from tests.conftest import RealNode
from tests.e2e.snapshots_fixture import soon

pytestmark = pytest.mark.node


def test_up_again_is_nothing_new(real_node: RealNode) -> None:
    """A second `up` leaves the node alone, and its last line can be evaluated by a shell."""
    records = sorted((real_node.places.node / "run").glob("*.json"))
    before = [path.read_text() for path in records]
    done = subprocess.run(
        [sys.executable, "-m", "cluster", "up"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"export KUBECONFIG={node.kubeconfig(real_node.places)}"
    assert [path.read_text() for path in records] == before


def test_up_after_a_crash(real_node: RealNode) -> None:
    """Whatever was left of a node that broke down is removed before a new one is started."""
    if not real_node.ours:
        pytest.skip("the node was up before the tests: it is not ours to break")
    places = real_node.places
    for name in ("kubelet", "containerd", "etcd"):
        record = json.loads((places.node / "run" / f"{name}.json").read_text())
        os.kill(record["pid"], signal.SIGKILL)
    assert not node.is_up(places)
    assert leftovers.found(NodeFiles(places.node))
    node.up(places, print)
    # A busy machine may leave one of its questions unanswered.
    assert soon("the node is up", lambda: node.is_up(places))
