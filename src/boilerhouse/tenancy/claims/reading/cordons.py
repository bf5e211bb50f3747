"""Whose turn it is to leave a cordoned node: a few at a time, in the order of their names.

Node informer ─► cordoned nodes ─┐
claimed Pods by node (index) ────┼─► due() ─► turn(pod) ─► Seen.cordoned ─► keeping.py
phases of their claims ──────────┘      └─► wakes the next ones when one has left

A drain waits for the disruption budget, and the budget for us. All tenants of a node at once would
fill the way to the snapshot volume for everybody else, so at most LEAVING_LIMIT leave at a time,
counted over all cordoned nodes. Nothing is remembered: claims that are Releasing have their turn,
and what room is left goes to the first that are still Active. One whose files cannot be saved is
ReleaseFailed, and holds up no other.

While no node is cordoned, this costs a look at an empty set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from boilerhouse.core import names
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Node, Pod
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.reading.holdings import phase_of
from boilerhouse.tenancy.instances.seen import ClaimRef, InstanceSeen

LEAVING_LIMIT = 4


@dataclass(frozen=True, slots=True, order=True)
class Tenant:
    """A claim that has its instance on a cordoned node."""

    pod: str
    claim: Key
    phase: ClaimPhase


def turns(tenants: Iterable[Tenant], at_once: int = LEAVING_LIMIT) -> list[Tenant]:
    """Return those that are still Active and are to go now; none while enough are on their way."""
    ordered = sorted(tenants)
    leaving = sum(tenant.phase == ClaimPhase.RELEASING for tenant in ordered)
    staying = [tenant for tenant in ordered if tenant.phase == ClaimPhase.ACTIVE]
    return staying[: max(0, at_once - leaving)]


class Cordons:
    """`wake` asks for a pass of a claim."""

    def __init__(
        self,
        nodes: Informer[Node],
        pods: Informer[Pod],
        claims: Informer[Claim],
        wake: Callable[[Key], None],
    ) -> None:
        self._claims = claims
        self._wake = wake
        self._cordoned: set[str] = set()
        self._by_node = pods.index(_claimed_on)
        nodes.subscribe(self._node_changed)
        claims.subscribe(self._claim_changed)

    def turn(self, pod: InstanceSeen) -> str:
        """Return the node that an instance is to leave now; nothing if it may stay."""
        if pod.node not in self._cordoned:
            return ""
        return pod.node if any(tenant.pod == pod.name for tenant in self.due()) else ""

    def due(self) -> list[Tenant]:
        """Return those who are to go now, from all cordoned nodes together."""
        pods = (pod for node in self._cordoned for pod in self._by_node.get(node))
        return turns(tenant for pod in pods if (tenant := self._tenant(pod)) is not None)

    def _tenant(self, pod: Pod) -> Tenant | None:
        meta = pod.metadata
        ref = ClaimRef.parse(meta.annotations.get(names.CLAIM, ""))
        claim = None if ref is None else self._claims.get(meta.namespace, ref.name)
        if ref is None or claim is None or claim.metadata.uid != ref.uid:
            return None
        return Tenant(meta.name, Key(meta.namespace, ref.name), phase_of(claim))

    def _node_changed(self, change: Change[Node]) -> None:
        node = change.new
        if node is None or not node.spec.unschedulable:
            self._cordoned.discard(change.key.name)
        elif change.key.name not in self._cordoned:
            self._cordoned.add(change.key.name)
            self._wake_due()

    def _claim_changed(self, change: Change[Claim]) -> None:
        """Somebody has left, or cannot: the next ones' turn."""
        if not self._cordoned or change.old is None:
            return
        if change.new is None or phase_of(change.new) != phase_of(change.old):
            self._wake_due()

    def _wake_due(self) -> None:
        for tenant in self.due():
            self._wake(tenant.claim)


def _claimed_on(pod: Pod) -> list[str]:
    """Return the node of a claimed Pod; one that is being deleted leaves by itself."""
    claimed = names.CLAIM in pod.metadata.annotations and pod.spec.node_name
    return [pod.spec.node_name] if claimed and pod.metadata.deletion_timestamp is None else []
