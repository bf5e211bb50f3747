"""Nodes that are emptied: `up` on one machine, operator and API beside a node.

evict ─► 429, the budget      cordon ─► hibernated ─► gone      uncordon, claim ─► the same files

One house for the whole file. There is one node in either world: what leaves it comes back to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from boilerhouse.platform.kube.client import ALL, Client
from boilerhouse.platform.kube.resources import DISRUPTION_BUDGETS as BUDGETS
from boilerhouse.platform.kube.resources import NODES, PODS
from boilerhouse.platform.kube.status import NotFound, TooManyRequests
from boilerhouse.tenancy.disruptions.build import HELPER, INSTANCES
from tests.e2e.kubectl import Kubectl, binary
from tests.e2e.snapshots_fixture import Home, soon

pytestmark = pytest.mark.timeout(300)


def evict(home: Home, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}

    async def asked(client: Client) -> None:
        await client.raw("POST", PODS.path(client.namespace, pod, "eviction"), body)

    home.kube(asked)


def budget(home: Home, name: str) -> tuple[int, bool]:
    """Return the number that a budget says, and whether evictions are judged by it; 0: none."""

    async def asked(client: Client) -> tuple[int, bool]:
        try:
            found = await client.get(BUDGETS, name)
        except NotFound:
            return 0, True
        # A real server judges by what its controller has made of the budget.
        settled = home.kind == "embedded" or (
            found.status.get("observedGeneration") == found.metadata.generation
            and found.status.get("expectedPods") == found.spec["minAvailable"]
        )
        return found.spec["minAvailable"], settled

    return home.kube(asked)


def of_others(home: Home) -> list[str]:
    """Return the namespaces of Pods that would be driven out of the node as well."""
    found = home.kube(lambda client: client.list(PODS, namespace=ALL)).items
    stay = [pod.metadata for pod in found if pod.metadata.deletion_timestamp is None]
    return sorted({meta.namespace for meta in stay} - {home.namespace})


def cordon(home: Home, node: str, wanted: bool) -> None:
    spec = {"spec": {"unschedulable": wanted or None}}
    home.kube(lambda client: client.merge_patch(NODES, node, spec))


@pytest.fixture
def node(home: Home) -> Iterator[str]:
    """The only node, which may be emptied, and is as before in the end; not one that others use."""
    with contextlib.suppress(pytest.fail.Exception):
        soon("what other tests leave behind is gone", lambda: not of_others(home), 30)
    if others := of_others(home):
        pytest.skip(f"the node runs Pods of others, in {', '.join(others)}: it is not emptied")
    [found] = home.kube(lambda client: client.list(NODES)).items
    yield found.metadata.name
    cordon(home, found.metadata.name, False)


def test_no_eviction_before_it_is_hibernated(home: Home) -> None:
    """429 while it is claimed; warm ones go at once; hibernated, there is nothing left to evict."""
    home.workload("evicted")
    instance = home.claim("eva", "evicted", "cold")
    home.sh(instance, "echo here > /workspace/f")
    home.pool("evicted")
    soon("the budget covers it", lambda: budget(home, INSTANCES) == (1, True))
    with pytest.raises(TooManyRequests) as refused:
        evict(home, instance)
    [cause] = refused.value.causes
    assert cause.reason == "DisruptionBudget"
    assert INSTANCES in cause.message
    assert home.sh(instance, "cat /workspace/f") == "here\n"

    warm = home.kube(lambda client: client.list(PODS, labels={"boilerhouse.dev/pool": "evicted"}))
    evict(home, warm.items[0].metadata.name)
    soon("the warm Pod goes", lambda: _goes(home, warm.items[0].metadata.name))
    home.ask("DELETE", "/pools/evicted")

    home.released("eva", "evicted")
    with pytest.raises(NotFound):
        evict(home, instance)
    soon("there is no budget for nobody", lambda: budget(home, INSTANCES)[0] == 0)


def _goes(home: Home, name: str) -> bool:
    pod = home.pod(name)
    return pod is None or pod.metadata.deletion_timestamp is not None


def test_a_cordoned_node_is_left(home: Home, node: str) -> None:
    """Everybody is hibernated by itself, with files or without; uncordoned, they come back."""
    home.workload("leaves")
    home.workload("bare", filesystem={}, entrypoint={"cmd": "/bin/sleep", "args": ["1000"]})
    instances = [home.claim(tenant, "leaves", "cold") for tenant in ("lea", "leo")]
    for instance in instances:
        home.sh(instance, f"echo {instance} > /workspace/f")
    instances.append(home.claim("lou", "bare", "cold"))
    cordon(home, node, True)
    for tenant in ("lea", "leo", "lou"):
        held = home.in_phase(tenant, "Released")
        assert held["detail"] == f"the node {node} is cordoned"
    assert [home.pod(instance) for instance in instances] == [None] * 3
    body = {"workload": "leaves"}
    answer = home.ask("POST", "/tenants/lea/claim", body, params={"wait": 2})
    assert (answer.status_code, answer.json()["phase"]) == (202, "Pending"), answer.text
    cordon(home, node, False)
    for tenant, instance in zip(("lea", "leo"), instances, strict=False):
        answer = home.ask("POST", f"/tenants/{tenant}/claim", body, params={"wait": 90})
        assert answer.status_code in (200, 201), answer.text
        assert home.sh(answer.json()["instanceId"], "cat /workspace/f") == f"{instance}\n"
        home.released(tenant, "leaves")


def test_kubectl_drain_goes_through(home: Home, node: str, tmp_path: Path) -> None:
    """It cordons, is refused, waits, and finds the instance gone; nothing is lost.

    The only node is also the snapshot helper's: it is evicted last, and comes back.
    """
    kubectl = Kubectl(binary(), home.kubeconfig, tmp_path)
    home.workload("drained")
    instance = home.claim("dina", "drained", "cold")
    home.sh(instance, "echo here > /workspace/f")
    soon("the budget covers it", lambda: budget(home, INSTANCES) == (1, True))
    soon("and the helper", lambda: budget(home, HELPER) == (1, True))
    how = ("--force", "--delete-emptydir-data", "--ignore-daemonsets", "--timeout", "120s")
    done = kubectl.run("drain", node, *how)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "drained" in done.stdout
    held = home.in_phase("dina", "Released")
    assert held["detail"] == f"the node {node} is cordoned"
    assert home.pod(instance) is None
    cordon(home, node, False)
    home.until_helped()
    instance = home.claim("dina", "drained", "cold+data")
    assert home.sh(instance, "cat /workspace/f") == "here\n"
    home.released("dina", "drained")
