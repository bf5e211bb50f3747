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

import contextlib
from datetime import timedelta

import structlog

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.errors import Retry
from boilerhouse.core.upkeep import Create, Delete, Plan, Replace, Seen, There, Wait, decide
from boilerhouse.node.helper import layout
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Dynamic, Pod
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.kube.status import AlreadyExists, Conflict, NotFound
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.platform.loop.rightofway import RightOfWay
from boilerhouse.tenancy.disruptions import build

log = structlog.get_logger(__name__)

BUDGETS: Resource[Dynamic] = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Dynamic
)
EVERY = timedelta(seconds=1)  # what happens to Pods within this time is written together
LOOK_AGAIN = timedelta(minutes=5)  # somebody may take our label off, which no event tells

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
        way: RightOfWay | None = None,
        timing: Timing | None = None,
        every: timedelta = EVERY,
    ) -> None:
        self._client = client
        self._every = every
        self._pods = pods
        self._helper = helper
        self._claimed = pods.index(_claimed_at)
        self._keys = [Key(client.namespace, name) for name in build.BUDGETS]
        self.informer: Informer[Dynamic] = Informer(
            client, BUDGETS, labels={layout.COMPONENT: build.BUDGET}, timing=timing
        )
        self.controller: Controller[Key, Seen, Plan] = Controller(
            "budgets",
            read=self.read,
            decide=decide,
            apply=self.apply,
            keys=lambda: self._keys,
            clock=clock,
            chance=chance,
            recorder=recorder,
            workers=1,
            leader_only=True,
            way=way,
        )
        pods.subscribe(self._pod_changed)
        helper.subscribe(lambda change: self._wake())
        self.informer.subscribe(self._budget_changed)

    async def read(self, key: Key) -> Seen | None:
        """Count the Pods, and look at the budget, live; None if it is none of ours."""
        if key not in self._keys:
            return None
        if not (self._pods.synced.is_set() and self._helper.synced.is_set()):
            raise Retry("the Pods are not listed yet")
        helper = self._helper.get(key.namespace, layout.POD)
        node = "" if helper is None else helper.spec.node_name
        wanted = build.budget(
            key.name,
            claimed=self._claimed.count(_ANYWHERE),
            beside_helper=self._claimed.count(node) if node else 0,
        )
        try:
            found = await self._client.get(BUDGETS, key.name)
        except NotFound:
            return Seen(wanted, None)
        meta = found.metadata
        return Seen(wanted, There(meta.uid, meta.resource_version, found.spec))

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta:
        """Make it so; what another process did meanwhile is looked at again."""
        try:
            await self._write(key.name, plan)
        except (AlreadyExists, Conflict):
            return self._every
        return LOOK_AGAIN

    async def _write(self, name: str, plan: Plan) -> None:
        match plan:
            case Create(body):
                log.info("budget.created", budget=name, spec=body["spec"])
                await self._client.create(BUDGETS, body)
            case Replace(uid, version, body):
                log.info("budget.written", budget=name, spec=body["spec"])
                meta = {**body["metadata"], "uid": uid, "resourceVersion": version}
                await self._client.replace(BUDGETS, {**body, "metadata": meta})
            case Delete(uid, version):
                log.info("budget.removed", budget=name)
                with contextlib.suppress(NotFound):
                    await self._client.delete(BUDGETS, name, uid=uid, resource_version=version)
            case Wait():
                return

    def _pod_changed(self, change: Change[Pod]) -> None:
        if _claimed_at(change.old) != _claimed_at(change.new):
            self._wake()

    def _wake(self) -> None:
        for key in self._keys:
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
