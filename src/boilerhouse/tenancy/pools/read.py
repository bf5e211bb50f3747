"""Gathers what a decision about a pool may look at.

pool informer, Pod informer, workloads ─► Seen     a live GET wherever they say "absent"
"""

from __future__ import annotations

from dataclasses import dataclass

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, Random
from boilerhouse.platform.kube.cache import Index
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.loop.stepfailures import StepFailures
from boilerhouse.tenancy.instances.blueprints import Blueprints
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.patience import Patience
from boilerhouse.tenancy.instances.readiness import Readiness
from boilerhouse.tenancy.instances.seen import InstanceSeen
from boilerhouse.tenancy.pools.model import PoolStatus
from boilerhouse.tenancy.pools.objects import Pool
from boilerhouse.tenancy.pools.seen import PoolSeen, Seen


def pool_seen(pool: Pool) -> PoolSeen:
    """Make of a Pool what decisions may know of it."""
    meta, spec = pool.metadata, pool.spec
    return PoolSeen(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        workload=spec.workload_ref,
        size=spec.size,
        max_fill=spec.max_fill_concurrency,
        status=pool.status or PoolStatus(),
        finalizers=tuple(meta.finalizers),
        deleting=meta.deletion_timestamp is not None,
    )


@dataclass(frozen=True, slots=True)
class Reader:
    """Where a pool's Seen comes from."""

    client: Client
    pools: Writer[Pool]
    instances: Instances
    by_pool: Index[Pod]
    blueprints: Blueprints
    refusals: StepFailures[Key]
    failures: StepFailures[Key]
    patience: Patience
    readiness: Readiness
    clock: Clock
    rng: Random

    async def read(self, key: Key) -> Seen | None:
        """Return everything there is to see; None if there is neither pool nor Pod of it."""
        held = self.pools.informer.cache.get(key) or await self.pools.refresh(key.name)
        pool = None if held is None else pool_seen(held)
        pods = self._unclaimed(self.by_pool.get(key.name))
        if not pods and (pool is None or pool.deleting):
            # Letting go of a pool whose Pods are only not in the cache would leave them behind.
            labels = {names.MANAGED: "true", names.POOL: key.name}
            pods = self._unclaimed((await self.client.list(PODS, labels=labels)).items)
        if pool is None:
            self.refusals.clear(key)
            self.failures.clear(key)
            return Seen(self.clock.now(), None, pods=pods) if pods else None
        return Seen(
            now=self.clock.now(),
            pool=pool,
            workload=await self.blueprints.look(pool.workload),
            pods=await self.readiness.explain_all(pods),
            random_bits=self.rng.getrandbits(48),
            refusal=self.refusals.of(key),
            failing=self.failures.of(key),
        )

    def _unclaimed(self, pods: list[Pod]) -> tuple[InstanceSeen, ...]:
        seen = (self.instances.view(pod) for pod in pods)
        return tuple(self.patience.timed(pod) for pod in seen if pod.claim is None)
