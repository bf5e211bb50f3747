"""Who is woken by what: events of informers become keys of controllers.

workload ─► itself, its pools, claims that wait for it
claim    ─► itself, its workload; when it is over, whoever it kept waiting
Pod      ─► the claims that mean or carry it, its pool; when it is gone, its agent's Secret

Waking one too many costs a pass that finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from boilerhouse.core import names
from boilerhouse.operator.ties import keeps
from boilerhouse.platform.kube.cache import Change, Index, by_label
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.news import News
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.queue import KeyedQueue
from boilerhouse.platform.loop.setbacks import Setbacks
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.read import claim_of
from boilerhouse.tenancy.claims.reading.holdings import phase_of, tenancy
from boilerhouse.tenancy.pools.objects import Pool
from boilerhouse.tenancy.workloads.objects import Workload

# A pool looks at all its Pods in each pass, a workload at its whole spec. So that a burst of claims
# is one pass and not one for each claim, what happens within this time is looked at together.
MERGED = timedelta(milliseconds=20)

_by_pool = by_label(names.POOL)


@dataclass(frozen=True, slots=True)
class Waking:
    """The queues of the controllers, and the indexes that say who is concerned."""

    workloads: KeyedQueue[Key]
    pools: KeyedQueue[Key]
    claims: KeyedQueue[Key]
    secrets: KeyedQueue[Key]
    by_intent: Index[Claim]  # claims by the Pod they mean
    by_workload: Index[Claim]
    by_tenancy: Index[Claim]
    pools_by_workload: Index[Pool]
    setbacks: Setbacks[Key]  # of claims
    news: News[Claim]
    hurry: Callable[[Key], None]  # to save a claim's files: its instance is going

    def listen(
        self,
        workloads: Informer[Workload],
        pools: Informer[Pool],
        claims: Informer[Claim],
        pods: Informer[Pod],
    ) -> None:
        """Be told of every change from now on."""
        workloads.subscribe(self._workload_changed)
        pools.subscribe(lambda change: self.pools.add(change.key))
        claims.subscribe(self._claim_changed)
        pods.subscribe(self._pod_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        self.workloads.add(change.key)
        for pool in self.pools_by_workload.get(change.key.name):
            self.pools.add(Key(pool.metadata.namespace, pool.metadata.name))
        for claim in self.by_workload.get(change.key.name):
            if phase_of(claim) in (ClaimPhase.PENDING, ClaimPhase.ERROR):
                self.claims.add(Key(claim.metadata.namespace, claim.metadata.name))

    def _claim_changed(self, change: Change[Claim]) -> None:
        self.claims.add(change.key)
        if change.new is not None and not keeps(change.new):
            workload = Key(change.key.namespace, change.new.spec.workload_ref)
            self.workloads.add_after(workload, MERGED)
        if change.new is not None and phase_of(change.new) != ClaimPhase.RELEASED:
            return
        # It is over: whoever was kept waiting by it may go on.
        for claim in (change.old, change.new):
            if claim is None:
                continue
            workload = Key(change.key.namespace, claim.spec.workload_ref)
            self.workloads.add_after(workload, MERGED)
            for other in self.by_tenancy.get(tenancy(claim)):
                key = Key(other.metadata.namespace, other.metadata.name)
                if key != change.key:
                    self.setbacks.clear(key)
                    self.claims.add(key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        namespace, name = change.key
        # In order, and each of them once: the Pod before and after mostly concern the same.
        claims = [claim.metadata.name for claim in self.by_intent.get(name)]
        pools: list[str] = []
        ending = False
        for pod in (change.old, change.new):
            if pod is not None:
                claims += claim_of(pod)
                pools += _by_pool(pod)
                ending = ending or pod.metadata.deletion_timestamp is not None
        for one in dict.fromkeys(claims):
            claim = Key(namespace, one)
            if ending:
                self.hurry(claim)
            self.claims.add(claim)
            self.news.tell(claim)  # an Active claim may have been heard of before its Pod
        for one in dict.fromkeys(pools):
            self.pools.add_after(Key(namespace, one), MERGED)
        if change.new is None:
            secret = names.agent_secret_name(change.key.name)
            self.secrets.add(Key(change.key.namespace, secret))
