"""Whose turn it is to leave a cordoned node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Node, Pod
from boilerhouse.platform.kube.resources import NODES, PODS, Key
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.reading.cordons import LEAVING_LIMIT, Cordons, Tenant, turns
from tests.unit.platform.kube.scripted import Scripted
from tests.unit.tenancy.claims.views import warm

P = ClaimPhase


def tenants(**phases: ClaimPhase) -> list[Tenant]:
    return [Tenant(pod, Key("sim", f"claim-{pod}"), phase) for pod, phase in phases.items()]


def turn_of(**phases: ClaimPhase) -> list[str]:
    return [tenant.pod for tenant in turns(tenants(**phases), at_once=2)]


def test_the_first_by_name_go() -> None:
    """No more than may leave at once."""
    assert turn_of(c=P.ACTIVE, b=P.ACTIVE, a=P.ACTIVE) == ["a", "b"]
    assert turn_of() == []


def test_who_is_on_the_way_has_a_turn() -> None:
    """Also if all the others come first by name."""
    assert turn_of(a=P.ACTIVE, b=P.ACTIVE, c=P.RELEASING) == ["a"]
    assert turn_of(a=P.ACTIVE, b=P.RELEASING, c=P.RELEASING) == []
    assert turn_of(a=P.ACTIVE, b=P.RELEASING, c=P.RELEASING, d=P.RELEASING) == []


def test_who_cannot_leave_holds_up_nobody() -> None:
    """Files that could not be saved are tried again in their own time; others are no instance."""
    stuck = {"a": P.RELEASE_FAILED, "b": P.RELEASE_FAILED, "c": P.PENDING, "d": P.RELEASED}
    assert turn_of(**stuck, e=P.ACTIVE, f=P.ACTIVE) == ["e", "f"]


class Place:
    """Cordons on informers that tests fill by hand."""

    def __init__(self) -> None:
        client = Client(Scripted(), "sim")
        self.nodes: Informer[Node] = Informer(client, NODES)
        self.pods: Informer[Pod] = Informer(client, PODS)
        self.claims: Informer[Claim] = Informer(client, CLAIMS)
        self.woken: list[str] = []
        self._revision = 0
        wake = self.woken
        self.cordons = Cordons(
            self.nodes, self.pods, self.claims, lambda key: wake.append(key.name)
        )

    def _meta(self, name: str, **more: Any) -> dict[str, Any]:
        self._revision += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._revision)}
        return {"namespace": "sim", **meta, **more}

    def node(self, name: str, *, cordoned: bool, deleted: bool = False) -> None:
        body = {"metadata": self._meta(name, namespace=""), "spec": {"unschedulable": cordoned}}
        self.nodes.cache.apply(msgspec.convert(body, Node), deleted=deleted)

    def claim(self, name: str, phase: str = "Active", deleted: bool = False) -> None:
        body = {
            "metadata": self._meta(name),
            "spec": {"tenantId": "t", "workloadRef": "web"},
            "status": {"phase": phase},
        }
        self.claims.cache.apply(msgspec.convert(body, Claim), deleted=deleted)

    def pod(self, name: str, claim: str = "", node: str = "n1", **more: Any) -> None:
        if claim:
            more["annotations"] = {"boilerhouse.dev/claim": claim}
        body = {"metadata": self._meta(name, **more), "spec": {"nodeName": node}}
        self.pods.cache.apply(msgspec.convert(body, Pod))

    def tenant(self, name: str, node: str = "n1") -> None:
        """Put a claim with its instance on a node."""
        self.claim(name)
        self.pod(f"p-{name}", f"{name}/uid-{name}", node)

    def turn(self, name: str, node: str = "n1") -> str:
        return self.cordons.turn(warm(name=f"p-{name}", node=node))


@pytest.fixture
def place() -> Place:
    return Place()


def test_nobody_leaves_a_node_that_is_not_cordoned(place: Place) -> None:
    """Nor one that is cordoned no more, or is gone."""
    place.node("n1", cordoned=False)
    place.tenant("a")
    assert place.turn("a") == ""
    place.node("n1", cordoned=True)
    assert (place.turn("a"), place.woken) == ("n1", ["a"])
    place.node("n1", cordoned=True)  # a heartbeat
    assert place.woken == ["a"]
    place.node("n1", cordoned=False)
    assert place.turn("a") == ""
    place.node("n1", cordoned=True)
    place.node("n1", cordoned=True, deleted=True)
    assert place.turn("a") == ""


def test_a_few_at_a_time_over_all_nodes(place: Place) -> None:
    """The next is woken when one has left, cannot, or is deleted; others stay where they are."""
    for number in range(LEAVING_LIMIT + 3):
        place.tenant(f"t{number}", node=f"n{number % 2}")
    place.tenant("t0-elsewhere", node="n2")
    place.node("n0", cordoned=True)
    place.node("n1", cordoned=True)
    assert [tenant.pod for tenant in place.cordons.due()] == ["p-t0", "p-t1", "p-t2", "p-t3"]
    assert place.turn("t4", "n0") == ""
    assert place.turn("t0-elsewhere", "n2") == ""
    place.woken.clear()
    for number in range(LEAVING_LIMIT):
        place.claim(f"t{number}", "Releasing")
    place.woken.clear()
    place.claim("t0", "Released")
    assert place.woken == ["t4"]
    place.claim("t4", "Releasing")
    place.claim("t1", "ReleaseFailed")
    assert place.woken == ["t4", "t5"]
    place.claim("t5", "Releasing")
    place.claim("t2", "Releasing", deleted=True)
    assert place.woken == ["t4", "t5", "t6"]


def test_only_claimed_instances_that_stay(place: Place) -> None:
    """Not warm Pods, not those that are going by themselves, not those of a claim that is gone."""
    place.node("n1", cordoned=True)
    place.pod("p-warm")
    place.pod("p-nowhere", "a/uid-a", node="")
    place.pod("p-gone", "gone/uid-gone")
    place.claim("other")
    place.pod("p-other", "other/an-older-uid")
    place.claim("going")
    place.pod("p-going", "going/uid-going", deletionTimestamp="2026-05-01T12:00:00Z")
    assert place.cordons.due() == []
    place.tenant("a")
    place.claim("a", "Active")  # heard again, in the same phase
    assert [tenant.pod for tenant in place.cordons.due()] == ["p-a"]
    assert place.woken == []
