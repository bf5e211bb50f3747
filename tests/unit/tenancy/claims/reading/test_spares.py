"""The warm Pods that wait for a tenant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.reading.spares import RESERVED_FOR, Spares
from tests.unit.platform.kube.scripted import Scripted

Body = dict[str, Any]


class Shelf:
    """Spares on an informer that tests fill by hand."""

    def __init__(self) -> None:
        self.pods: Informer[Pod] = Informer(Client(Scripted(), "sim"), PODS)
        self.clock = FakeClock()
        self.sick: set[str] = set()
        self.chosen: set[str] = set()
        self._revision = 0
        self.spares = Spares(
            self.pods,
            self.clock,
            healthy=lambda node: node not in self.sick,
            chosen=lambda name: name in self.chosen,
        )

    def put(self, name: str, *, ready: bool = True, **changes: Any) -> Pod:
        """Add or change a warm Pod."""
        self._revision += 1
        labels = {
            "boilerhouse.dev/workload": "web",
            "boilerhouse.dev/template": changes.pop("template", "t1"),
            "boilerhouse.dev/pool": "warm",
            "boilerhouse.dev/pool-status": "ready",
        }
        body = {
            "metadata": {
                "name": name,
                "namespace": "sim",
                "uid": f"uid-{name}",
                "resourceVersion": str(self._revision),
                "labels": labels,
                **changes,
            },
            "spec": {"nodeName": "n1"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": str(ready)}],
            },
        }
        pod = msgspec.convert(body, Pod)
        self.pods.cache.apply(pod)
        return pod

    def take(self, holder: str, template: str = "t1") -> Intent | None:
        return self.spares.reserve(holder, "web", template)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_many_holders_get_different_pods(shelf: Shelf) -> None:
    """Three hundred at one moment choose three hundred, the longest ready first."""
    for number in range(300):
        shelf.put(f"p{number:03}")
    taken = [shelf.take(f"claim-{number}") for number in range(300)]
    assert [t.pod for t in taken if t] == [f"p{number:03}" for number in range(300)]
    assert shelf.take("one-more") is None


def test_a_holder_that_asks_again_gets_the_same(shelf: Shelf) -> None:
    """A pass that is repeated does not use up the pool."""
    shelf.put("a")
    shelf.put("b")
    assert shelf.take("x") == shelf.take("x") == Intent("a", "uid-a")


def test_what_is_given_back_is_offered_again(shelf: Shelf) -> None:
    """Also what somebody reserved and never used."""
    shelf.put("a")
    shelf.take("x")
    assert shelf.take("y") is None
    shelf.spares.give_back("x")
    assert shelf.take("y") == Intent("a", "uid-a")
    shelf.clock.advance(RESERVED_FOR)
    assert shelf.take("z") == Intent("a", "uid-a")


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": False},
        {"template": "t2"},
        {"annotations": {"boilerhouse.dev/claim": "c/u"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"labels": {}},
    ],
)
def test_what_changed_for_the_worse_is_not_offered(shelf: Shelf, changes: Body) -> None:
    """Bound, dying, unready, outdated: gone from the shelf, reserved or not."""
    shelf.put("a")
    assert shelf.spares.count("web", "t1") == 1
    shelf.take("x")
    shelf.put("a", **changes)
    assert shelf.spares.count("web", "t1") == 0
    assert shelf.take("y") is None


def test_another_template_is_another_shelf(shelf: Shelf) -> None:
    """A holder whose workload changed chooses anew."""
    shelf.put("a")
    shelf.put("b", template="t2")
    assert shelf.take("x", "t1") == Intent("a", "uid-a")
    assert shelf.take("x", "t2") == Intent("b", "uid-b")
    assert shelf.take("y", "t1") == Intent("a", "uid-a")


def test_sick_nodes_and_chosen_pods_are_passed_over(shelf: Shelf) -> None:
    """Another process's claim may name it already."""
    shelf.put("a")
    shelf.chosen.add("a")
    assert shelf.take("x") is None
    shelf.chosen.clear()
    shelf.sick.add("n1")
    assert shelf.take("x") is None
    shelf.sick.clear()
    assert shelf.take("x") == Intent("a", "uid-a")


def test_what_was_bound_a_moment_ago_is_not_offered(shelf: Shelf) -> None:
    """Own writes are told later than they are in the cache, which is what counts."""
    ours = shelf.put("a")
    shelf.put("b")
    shelf.take("x")
    annotations = {"boilerhouse.dev/claim": "c/u"}
    newer = msgspec.structs.replace(ours.metadata, annotations=annotations, resource_version="9")
    shelf.pods.cache.observe(msgspec.structs.replace(ours, metadata=newer))
    assert shelf.pods.cache.untold
    assert shelf.take("x") == Intent("b", "uid-b"), "not the one that it had before"
    shelf.spares.give_back("x")
    assert shelf.take("y") == Intent("b", "uid-b")
    shelf.pods.cache.tell()
    assert shelf.spares.count("web", "t1") == 1
