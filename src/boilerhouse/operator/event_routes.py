"""Which keys of which controller a change concerns.

workload ─► itself, its pools, claims that wait for it
claim    ─► itself, its workload; when it is over, whoever it kept waiting
Pod      ─► the claims that mean or carry it, its pool; when it is gone, its agent's Secret

EventRoutes one too many costs a pass that finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from boilerhouse.core import names
from boilerhouse.operator.references import keeps
from boilerhouse.platform.kube.cache import Change, Index, by_label
from boilerhouse.platform.kube.kinds import Object, Pod
from boilerhouse.platform.kube.notifier import ChangeNotifier
from boilerhouse.platform.kube.resources import Key, key_of
from boilerhouse.platform.loop.stepfailures import StepFailures
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.read import claim_of
from boilerhouse.tenancy.claims.reading.holdings import phase_of, tenancy
from boilerhouse.tenancy.pools.objects import Pool
from boilerhouse.tenancy.workloads.objects import Workload

T = TypeVar("T", bound=Object)

_by_pool = by_label(names.POOL)


@dataclass(frozen=True, slots=True)
class EventRoutes:
    """The indexes that say who is concerned."""

    by_intent: Index[Claim]  # claims by the Pod they mean
    by_workload: Index[Claim]
    by_tenancy: Index[Claim]
    pools_by_workload: Index[Pool]
    failures: StepFailures[Key]  # of claims
    notifier: ChangeNotifier[Claim]
    hurry: Callable[[Key], None]  # to save a claim's files: its instance is going

    def pools_of_workload(self, change: Change[Workload]) -> Iterable[Key]:
        return map(key_of, self.pools_by_workload.get(change.key.name))

    def claims_of_workload(self, change: Change[Workload]) -> Iterable[Key]:
        """Those that wait for it."""
        for claim in self.by_workload.get(change.key.name):
            if phase_of(claim) in (ClaimPhase.PENDING, ClaimPhase.ERROR):
                yield key_of(claim)

    def claims_of_claim(self, change: Change[Claim]) -> Iterable[Key]:
        """Itself; and when it is over, those of the same tenant and workload, which may go on."""
        yield change.key
        if change.new is not None and phase_of(change.new) != ClaimPhase.RELEASED:
            return
        for claim in _versions(change):
            for other in self.by_tenancy.get(tenancy(claim)):
                if key_of(other) != change.key:
                    self.failures.clear(key_of(other))
                    yield key_of(other)

    def claims_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """Those that mean it or carry it, in order, and each of them once."""
        claims = [claim.metadata.name for claim in self.by_intent.get(change.key.name)]
        ending = False
        for pod in _versions(change):
            claims += claim_of(pod)
            ending = ending or pod.metadata.deletion_timestamp is not None
        for name in dict.fromkeys(claims):
            claim = Key(change.key.namespace, name)
            if ending:
                self.hurry(claim)
            yield claim
            self.notifier.notify(claim)  # an Active claim may have been heard of before its Pod


def workload_of_claim(change: Change[Claim]) -> Iterable[Key]:
    """The workload that a claim keeps no more."""
    if change.new is None or not keeps(change.new):
        for claim in _versions(change):
            yield Key(change.key.namespace, claim.spec.workload_ref)


def pool_of_pod(change: Change[Pod]) -> Iterable[Key]:
    """The pools that it is or was in: mostly the same."""
    pools = [name for pod in _versions(change) for name in _by_pool(pod)]
    return [Key(change.key.namespace, name) for name in dict.fromkeys(pools)]


def secret_of_pod(change: Change[Pod]) -> Iterable[Key]:
    """The Secret of an agent whose Pod is gone."""
    if change.new is None:
        yield Key(change.key.namespace, names.agent_secret_name(change.key.name))


def _versions(change: Change[T]) -> list[T]:
    """Return the object before and after, as far as there is one."""
    return [item for item in (change.old, change.new) if item is not None]
