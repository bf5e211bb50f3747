"""Keeps one PodDisruptionBudget over the claimed instances of a namespace.

Pod informer (claimed, or no more) ─┐
informer of the budget ─────────────┴─► a moment later: read ─► decide ─► apply

So `kubectl drain` is refused an instance with a tenant's files in it (429) until the operator,
which sees that the node is cordoned (claims/cordons.py), has saved and removed it by itself.

The number follows the claims by a moment, at most one write a second: claims do not wait for it.
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
from boilerhouse.disruptions import build
from boilerhouse.disruptions.decide import (
    BudgetSeen,
    Create,
    Delete,
    Plan,
    Replace,
    Seen,
    Wait,
    decide,
)
from boilerhouse.helper.layout import COMPONENT
from boilerhouse.kube.cache import Change
from boilerhouse.kube.client import Client
from boilerhouse.kube.informer import Informer, Timing
from boilerhouse.kube.kinds import Dynamic, Pod
from boilerhouse.kube.resources import Key, Resource
from boilerhouse.kube.status import AlreadyExists, Conflict, NotFound
from boilerhouse.loop.controller import Controller
from boilerhouse.loop.recorder import Recorder
from boilerhouse.loop.rightofway import RightOfWay

log = structlog.get_logger(__name__)

BUDGETS: Resource[Dynamic] = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Dynamic
)
EVERY = timedelta(seconds=1)  # what happens to Pods within this time is written together
LOOK_AGAIN = timedelta(minutes=5)  # somebody may take our label off, which no event tells

_CLAIMED = "claimed"


class BudgetKeeper:
    """The controller of the budget, and the informer that wakes it. `pods` is run by another."""

    def __init__(
        self,
        client: Client,
        *,
        pods: Informer[Pod],
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
        self._claimed = pods.index(lambda pod: [_CLAIMED] if _is_claimed(pod) else [])
        self._key = Key(client.namespace, build.NAME)
        self.informer: Informer[Dynamic] = Informer(
            client, BUDGETS, labels={COMPONENT: build.BUDGET}, timing=timing
        )
        self.controller: Controller[Key, Seen, Plan] = Controller(
            "budgets",
            read=self.read,
            decide=decide,
            apply=self.apply,
            keys=lambda: [self._key],
            clock=clock,
            chance=chance,
            recorder=recorder,
            workers=1,
            leader_only=True,
            way=way,
        )
        pods.subscribe(self._pod_changed)
        self.informer.subscribe(self._budget_changed)

    async def read(self, key: Key) -> Seen | None:
        """Count the Pods, and look at the budget, live."""
        if key != self._key:
            return None
        if not self._pods.synced.is_set():
            raise Retry("the Pods are not listed yet")
        claimed = self._claimed.count(_CLAIMED)
        try:
            found = await self._client.get(BUDGETS, key.name)
        except NotFound:
            return Seen(claimed, None)
        meta = found.metadata
        return Seen(claimed, BudgetSeen(meta.uid, meta.resource_version, found.spec))

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta:
        """Make it so; what another process did meanwhile is looked at again."""
        try:
            await self._write(plan)
        except (AlreadyExists, Conflict):
            return self._every
        return LOOK_AGAIN

    async def _write(self, plan: Plan) -> None:
        match plan:
            case Create(claimed):
                log.info("budget.created", claimed=claimed)
                await self._client.create(BUDGETS, build.budget(claimed))
            case Replace(uid, version, claimed):
                log.info("budget.written", claimed=claimed)
                body = build.budget(claimed)
                meta = {**body["metadata"], "uid": uid, "resourceVersion": version}
                await self._client.replace(BUDGETS, {**body, "metadata": meta})
            case Delete(uid, version):
                log.info("budget.removed")
                with contextlib.suppress(NotFound):
                    await self._client.delete(
                        BUDGETS, build.NAME, uid=uid, resource_version=version
                    )
            case Wait():
                return

    def _pod_changed(self, change: Change[Pod]) -> None:
        if _is_claimed(change.old) != _is_claimed(change.new):
            self.controller.queue.add_after(self._key, self._every)

    def _budget_changed(self, change: Change[Dynamic]) -> None:
        """Hear of what others do to it, and not of each figure that the cluster notes on it."""
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self.controller.queue.add_after(change.key, self._every)


def _is_claimed(pod: Pod | None) -> bool:
    """Whether the budget selects a Pod that is there to stay."""
    return (
        pod is not None
        and names.TENANT in pod.metadata.labels
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ("Succeeded", "Failed")
    )
