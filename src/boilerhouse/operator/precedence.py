"""The priority of each key's next pass (priority.py): claims before refills, saves and sweeps.

claims, their Pods, notes of activity ─► of_claim
pools and their spares                ─► of_pool
workloads                             ─► of_workload
"""

from __future__ import annotations

from dataclasses import dataclass

from boilerhouse.core import names
from boilerhouse.core.clock import Clock
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.priority import BACKGROUND, DEFERRED, FOREGROUND, NORMAL
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.read import noted_moment
from boilerhouse.tenancy.claims.reading.holdings import phase_of
from boilerhouse.tenancy.claims.reading.memory import Results
from boilerhouse.tenancy.claims.reading.spares import Spares
from boilerhouse.tenancy.idle.verdict import Ask, ChangesSeen, Idle, verdict
from boilerhouse.tenancy.instances.blueprints import Blueprints
from boilerhouse.tenancy.pools.objects import Pool

_SETTLED = frozenset(
    {
        ClaimPhase.ACTIVE,
        ClaimPhase.RELEASING,
        ClaimPhase.RELEASED,
        ClaimPhase.RELEASE_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class Precedence:
    """What the controllers of workloads, pools and claims ask before a pass."""

    claims: Informer[Claim]
    pods: Informer[Pod]
    pools: Informer[Pool]
    blueprints: Blueprints
    spares: Spares
    changes: Results[ChangesSeen]  # what watched directories have answered
    clock: Clock

    def of_claim(self, key: Key) -> int:
        """A claim that has its instance, or is on its way out, can wait; one that is due, longer.

        Not if the instance was told to stop by somebody else and its files are to be saved in the
        time that is left. If the tenant claims again and waits for that, the gate knows.
        """
        claim = self.claims.cache.get(key)
        if claim is None or claim.status is None or claim.status.phase not in _SETTLED:
            return FOREGROUND
        if self._hurries(claim):
            return FOREGROUND
        return DEFERRED if self.is_due(key) else NORMAL

    def of_workload(self, key: Key) -> int:
        """A workload that is Ready, and is to stay so, can wait."""
        workload = self.blueprints.cached(key.name)
        settled = workload is not None and workload.ready and not workload.deleting
        return NORMAL if settled else FOREGROUND

    def is_due(self, key: Key) -> bool:
        """Whether an Active claim's idle deadline has passed, by what is noted of its activity.

        That costs a few microseconds, so that any number of deadlines can be judged when they come;
        what follows waits its turn, and by then everything is looked at again. Only what watched
        directories have just answered is used at once: it grows old.
        """
        claim = self.claims.cache.get(key)
        if claim is None or phase_of(claim) != ClaimPhase.ACTIVE:
            return False
        workload = self.blueprints.cached(claim.spec.workload_ref)
        if workload is None or workload.spec is None:
            return False
        assert claim.status is not None, "it has a phase"
        noted = noted_moment(claim.metadata.annotations.get(names.LAST_ACTIVITY, ""))
        idle, answer = workload.spec.idle, self.changes.newest(key)
        match verdict(self.clock.now(), idle, claim.status.claimed_at, noted, answer):
            case Ask():
                is_due = True
            case Idle():
                is_due = not idle.watch_dirs
            case _:
                is_due = False
        return is_due and not _leaves(claim) and not self._hurries(claim)

    def _hurries(self, claim: Claim) -> bool:
        """Whether somebody else has told the instance to stop, and there is some time left."""
        name = "" if claim.status is None else claim.status.instance_id
        pod = self.pods.get(claim.metadata.namespace, name)
        return pod is not None and bool(pod.metadata.deletion_grace_period_seconds)

    def of_pool(self, key: Key) -> int:
        """A pool that is a quarter full can wait for its refill while claims come in.

        Filling takes from the claims what they could be answered with; it is worth it once the pool
        runs low, and not before.
        """
        pool = self.pools.cache.get(key)
        workload = None if pool is None else self.blueprints.cached(pool.spec.workload_ref)
        if pool is None or workload is None:
            return NORMAL
        ready = self.spares.count(workload.name, workload.template)
        return BACKGROUND if 4 * ready >= pool.spec.size else NORMAL


def _leaves(claim: Claim) -> bool:
    meta = claim.metadata
    return meta.deletion_timestamp is not None or names.RELEASE in meta.annotations
