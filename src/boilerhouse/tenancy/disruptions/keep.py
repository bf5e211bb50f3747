"""Keeps the PodDisruptionBudgets of a namespace: over claimed instances, and over the helper.

Pods (claimed, or no more; the helper's) ─┐
informer of the budgets ──────────────────┴─► a moment later: read ─► decide ─► apply

So `kubectl drain` is refused an instance with a tenant's files in it (429) until the operator,
which sees that the node is cordoned (cordons.py), has saved and removed it by itself; and
is refused the snapshot helper for as long as there are tenants on that node to be saved.

The numbers follow the claims by a moment, at most one write a second: claims do not wait for them.
An instance that is evicted within that moment is saved within its grace, as one that somebody
deletes. Too high a number, after an instance has gone, only refuses for a moment longer.

A cluster that does not let us write budgets says so in the log of each try; what is evicted there
is saved within its grace, too.
"""

from __future__ import annotations

from datetime import timedelta

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.errors import Retry
from boilerhouse.core.upkeep import Plan, Seen
from boilerhouse.node.helper import layout
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.keeper import Keeper
from boilerhouse.platform.kube.kinds import Dynamic, Pod
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.disruptions import build

BUDGETS: Resource[Dynamic] = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Dynamic
)
EVERY = timedelta(seconds=1)  # what happens to Pods within this time is written together

_ANYWHERE = ""  # all claimed Pods, beside those of each node


class BudgetKeeper:
    """The controller of the budgets, and the informer that wakes it.

    `pods` and `helper` are informers of the instances and of the helper's Pod, run by others.
    """

    def __init__(
        self,
        client: Client,
        *,
        pods: Informer[Pod],
        helper: Informer[Pod],
        clock: Clock,
        chance: Random,
        recorder: Recorder,
        gate: Gate | None = None,
        timing: Timing | None = None,
        every: timedelta = EVERY,
    ) -> None:
        self._client = client
        self._every = every
        self._pods = pods
        self._helper = helper
        self._claimed = pods.index(_claimed_at)
        self.keeper = keeper = Keeper(
            "budget", client, BUDGETS, build.BUDGETS, self._wanted, moving=True, soon=every
        )
        self.informer: Informer[Dynamic] = Informer(
            client, BUDGETS, labels={layout.COMPONENT: build.BUDGET}, timing=timing
        )
        self.controller: Controller[Key, Seen, Plan] = Controller(
            "budgets",
            read=keeper.read,
            decide=keeper.decide,
            apply=keeper.apply,
            keys=lambda: keeper.kept,
            clock=clock,
            chance=chance,
            recorder=recorder,
            workers=1,
            leader_only=True,
            gate=gate,
        )
        pods.subscribe(self._pod_changed)
        helper.subscribe(lambda change: self._wake())
        self.informer.subscribe(self._budget_changed)

    def _wanted(self, name: str) -> build.Body | None:
        """Count the Pods, once they are known."""
        if not (self._pods.synced.is_set() and self._helper.synced.is_set()):
            raise Retry("the Pods are not listed yet")
        helper = self._helper.get(self._client.namespace, layout.POD)
        node = "" if helper is None else helper.spec.node_name
        return build.budget(
            name,
            claimed=self._claimed.count(_ANYWHERE),
            beside_helper=self._claimed.count(node) if node else 0,
        )

    def _pod_changed(self, change: Change[Pod]) -> None:
        if _claimed_at(change.old) != _claimed_at(change.new):
            self._wake()

    def _wake(self) -> None:
        for key in self.keeper.kept:
            self.controller.queue.add_after(key, self._every)

    def _budget_changed(self, change: Change[Dynamic]) -> None:
        """Hear of what others do to it, and not of each figure that the cluster notes on it."""
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self.controller.queue.add_after(change.key, self._every)


def _claimed_at(pod: Pod | None) -> list[str]:
    """Say where a Pod counts that the budget covers and that is there to stay."""
    if (
        pod is None
        or names.TENANT not in pod.metadata.labels
        or pod.metadata.deletion_timestamp is not None
        or pod.status.phase in ("Succeeded", "Failed")
    ):
        return []
    return [_ANYWHERE, pod.spec.node_name] if pod.spec.node_name else [_ANYWHERE]
