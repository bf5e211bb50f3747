"""The operator put together: what hears what, and who is woken by it.

informers ─► events wake keys ─► controllers (workloads, pools, claims, agents' Secrets)
                                   ▲
REST API ─► Acquirer, Releaser ────┘ the same passes, run inline

One class for both worlds: `up` gives it the embedded API's transport, a cluster a kubeconfig. An
API replica beside the operator makes one too, with `reconcile=False`: informers and inline passes,
no workers.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from boilerhouse.claims.acquire import Acquirer
from boilerhouse.claims.apply import Applier as ClaimApplier
from boilerhouse.claims.cordons import Cordons
from boilerhouse.claims.decide import decide as decide_claim
from boilerhouse.claims.files import Files
from boilerhouse.claims.holdings import Holdings, phase_of, tenancy
from boilerhouse.claims.hooks import ExecHooks
from boilerhouse.claims.intent import Intent
from boilerhouse.claims.jobs import Jobs
from boilerhouse.claims.keeping import can_wait
from boilerhouse.claims.machine import ClaimPhase
from boilerhouse.claims.memory import Memory
from boilerhouse.claims.objects import CLAIMS, Claim
from boilerhouse.claims.read import Reader as ClaimReader
from boilerhouse.claims.read import claim_of
from boilerhouse.claims.release import Releaser
from boilerhouse.claims.rivals import Rivals
from boilerhouse.claims.seen import Plan as ClaimPlan
from boilerhouse.claims.seen import Seen as ClaimSeen
from boilerhouse.claims.snapshots import Hooks, Snapshots
from boilerhouse.claims.spares import Spares
from boilerhouse.core import names
from boilerhouse.core.clock import Clock, Random, SystemClock, rng
from boilerhouse.instances import sweep
from boilerhouse.instances.blueprints import Blueprints
from boilerhouse.instances.identity import Identities
from boilerhouse.instances.objects import Instances
from boilerhouse.instances.patience import Patience
from boilerhouse.instances.settings import Settings
from boilerhouse.kube.cache import Change, by_label
from boilerhouse.kube.client import Client
from boilerhouse.kube.informer import Informer, Timing
from boilerhouse.kube.kinds import Bare, Node, Pod
from boilerhouse.kube.leader import Elector
from boilerhouse.kube.resources import NODES, PODS, Key
from boilerhouse.loop.controller import Controller
from boilerhouse.loop.events import Events
from boilerhouse.loop.manager import Manager
from boilerhouse.loop.news import News
from boilerhouse.loop.recorder import Recorder
from boilerhouse.loop.rightofway import RightOfWay
from boilerhouse.loop.setbacks import Setbacks
from boilerhouse.operator.nodes import Nodes
from boilerhouse.pools.apply import Applier as PoolApplier
from boilerhouse.pools.decide import decide as decide_pool
from boilerhouse.pools.objects import POOLS, Pool
from boilerhouse.pools.read import Reader as PoolReader
from boilerhouse.pools.seen import Plan as PoolPlan
from boilerhouse.pools.seen import Seen as PoolSeen
from boilerhouse.workloads.apply import Applier as WorkloadApplier
from boilerhouse.workloads.decide import decide as decide_workload
from boilerhouse.workloads.images import Images
from boilerhouse.workloads.objects import WORKLOADS, Workload
from boilerhouse.workloads.read import Reader as WorkloadReader
from boilerhouse.workloads.seen import Plan as WorkloadPlan
from boilerhouse.workloads.seen import Seen as WorkloadSeen

# A pool looks at all its Pods in each pass. So that a burst of claims is one pass and not one for
# each claim, what happens to its Pods within this time is looked at together.
MERGED = timedelta(milliseconds=20)
# Seconds for which a pool that is at least half full waits with its refill while claims come in.
REFILL_PATIENCE = 10.0

_GIVES_WAY = frozenset(
    {
        ClaimPhase.ACTIVE,
        ClaimPhase.RELEASING,
        ClaimPhase.RELEASED,
        ClaimPhase.RELEASE_FAILED,
    }
)


class Operator:
    """Everything that makes objects of ours true in one namespace, the client's."""

    def __init__(
        self,
        client: Client,
        *,
        images: Images,
        identities: Identities,
        snapshots: Snapshots,
        hooks: Hooks | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        chance: Random | None = None,
        elector: Elector | None = None,
        timing: Timing | None = None,
        way: RightOfWay | None = None,
        reconcile: bool = True,
    ) -> None:
        self.client = client
        self.way = way or RightOfWay()
        self.clock = clock = clock or SystemClock()
        self._chance = chance = chance or rng()
        settings = settings or Settings()
        self.recorder = Recorder()
        self.events = Events(client, clock, way=self.way)

        self.workload_informer: Informer[Workload] = Informer(client, WORKLOADS, timing=timing)
        self.pool_informer: Informer[Pool] = Informer(client, POOLS, timing=timing)
        self.claim_informer: Informer[Claim] = Informer(client, CLAIMS, timing=timing)
        self.pod_informer: Informer[Pod] = Informer(
            client, PODS, labels={names.MANAGED: "true"}, timing=timing
        )
        self.node_informer: Informer[Node] = Informer(client, NODES, timing=timing)
        self.secret_informer: Informer[Bare] = Informer(
            client, sweep.SECRET_NAMES, labels={names.AGENT: "true"}, timing=timing
        )
        self._claims_by_intent = self.claim_informer.index(_intended)
        self._claims_by_workload = self.claim_informer.index(lambda c: [c.spec.workload_ref])
        self._claims_by_tenancy = self.claim_informer.index(lambda c: [tenancy(c)])
        self.holdings = Holdings(client, self._claims_by_tenancy)
        self._pools_by_workload = self.pool_informer.index(lambda p: [p.spec.workload_ref])

        nodes = Nodes(self.node_informer)
        self.instances = Instances(client, self.pod_informer)
        self.blueprints = Blueprints(client, self.workload_informer, settings)
        self.memory = Memory(clock, chance)
        self.jobs = Jobs(lambda key: self.claims.queue.add(key))
        self._files = Files(
            snapshots, hooks or ExecHooks(client), self.instances, self.memory, self.events
        )
        self.spares = Spares(
            self.pod_informer,
            clock,
            healthy=nodes.healthy,
            chosen=lambda pod: self._claims_by_intent.count(pod) > 0,
        )
        self.cordons = Cordons(
            self.node_informer,
            self.pod_informer,
            self.claim_informer,
            wake=lambda key: self.claims.queue.add(key),
        )
        self.news: News[Claim] = News(self.claim_informer)

        self.workloads = self._workloads(images)
        self.pools = self._pools(settings)
        self.claims = self._claims(identities, settings, nodes)
        sweeper = sweep.Sweeper(client, self.secret_informer, self.pod_informer, clock)
        self.secrets: Controller[Key, sweep.Seen, sweep.Delete | sweep.Wait] = Controller(
            "secrets",
            read=sweeper.read,
            decide=sweep.decide,
            apply=sweeper.apply,
            keys=lambda: list(self.secret_informer.cache),
            way=self.way,
            **self._loop(workers=2),
        )
        self.acquirer = Acquirer(
            client=client,
            claims=self.claim_informer,
            blueprints=self.blueprints,
            spares=self.spares,
            memory=self.memory,
            controller=self.claims,
            news=self.news,
            clock=clock,
            holdings=self.holdings,
            alive=self._lives,
        )
        self.releaser = Releaser(
            client, self.claim_informer, self.claims, self.news, clock, self.holdings, self.way
        )
        self.informers: tuple[Informer[Any], ...] = (
            self.workload_informer,
            self.pool_informer,
            self.claim_informer,
            self.pod_informer,
            self.node_informer,
            self.secret_informer,
        )
        self.manager = Manager(
            informers=self.informers,
            controllers=[self.workloads, self.pools, self.claims, self.secrets]
            if reconcile
            else [],
            elector=elector,
        )
        self._wire()

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set; what is under way then is finished."""
        async with self.events.running():
            try:
                await self.manager.run(stopping)
            finally:
                await self.jobs.close()

    # Controllers

    def _loop(self, workers: int = 16) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "chance": self._chance,
            "recorder": self.recorder,
            "leader_only": True,
            "workers": workers,
        }

    def _workloads(self, images: Images) -> Controller[Key, WorkloadSeen, WorkloadPlan]:
        reader = WorkloadReader(
            self.client, self.workload_informer, images, self._claims_of, self.clock
        )
        applier = WorkloadApplier(self.client, self.workload_informer, self.events)
        return Controller(
            "workloads",
            read=reader.read,
            decide=decide_workload,
            apply=applier.apply,
            keys=lambda: list(self.workload_informer.cache),
            **self._loop(workers=4),
        )

    def _pools(self, settings: Settings) -> Controller[Key, PoolSeen, PoolPlan]:
        refusals: Setbacks[Key] = Setbacks(self.clock, self._chance)
        failures: Setbacks[Key] = Setbacks(self.clock, self._chance)
        reader = PoolReader(
            client=self.client,
            pools=self.pool_informer,
            instances=self.instances,
            by_pool=self.pod_informer.index(by_label(names.POOL)),
            blueprints=self.blueprints,
            refusals=refusals,
            failures=failures,
            patience=Patience(self.clock),
            clock=self.clock,
            chance=self._chance,
        )
        applier = PoolApplier(
            client=self.client,
            pools=self.pool_informer,
            instances=self.instances,
            refusals=refusals,
            failures=failures,
            events=self.events,
            settings=settings,
        )
        return Controller(
            "pools",
            read=reader.read,
            decide=decide_pool,
            apply=applier.apply,
            keys=self._pool_keys,
            way=self.way,
            patience=self._pool_patience,
            **self._loop(workers=4),
        )

    def _claims(
        self, identities: Identities, settings: Settings, nodes: Nodes
    ) -> Controller[Key, ClaimSeen, ClaimPlan]:
        self._pods_by_claim = self.pod_informer.index(claim_of)
        reader = ClaimReader(
            client=self.client,
            claims=self.claim_informer,
            instances=self.instances,
            by_claim=self._pods_by_claim,
            blueprints=self.blueprints,
            spares=self.spares,
            memory=self.memory,
            jobs=self.jobs,
            healthy=nodes.healthy,
            turn=self.cordons.turn,
            patience=Patience(self.clock),
            clock=self.clock,
        )
        applier = ClaimApplier(
            client=self.client,
            claims=self.claim_informer,
            instances=self.instances,
            identities=identities,
            rivals=Rivals(self.client),
            files=self._files,
            jobs=self.jobs,
            memory=self.memory,
            events=self.events,
            settings=settings,
        )
        return Controller(
            "claims",
            read=reader.read,
            decide=decide_claim,
            apply=applier.apply,
            keys=self._claim_keys,
            way=self.way,
            gives_way=self._gives_way,
            can_wait=can_wait,
            **self._loop(),
        )

    def _gives_way(self, key: Key) -> bool:
        """Whether a claim's next pass gives way: it has its instance, or is on its way out.

        Not if the tenant claims again and waits for that, nor if the instance was told to stop by
        somebody else and its files are to be saved in the time that is left.
        """
        claim = self.claim_informer.cache.get(key)
        if claim is None or claim.status is None or claim.status.phase not in _GIVES_WAY:
            return False
        pod = self.pod_informer.get(self.client.namespace, claim.status.instance_id)
        hurried = pod is not None and bool(pod.metadata.deletion_grace_period_seconds)
        return not hurried and not self.way.is_wanted(key)

    def _pool_patience(self, key: Key) -> float:
        """Say for how many seconds a pool can wait for its refill while claims come in.

        Filling takes from the claims what they could be answered with; it is worth it once the pool
        runs low, and not before.
        """
        pool = self.pool_informer.cache.get(key)
        workload = None if pool is None else self.blueprints.cached(pool.spec.workload_ref)
        if pool is None or workload is None:
            return 0.0
        ready = self.spares.count(workload.name, workload.template)
        return REFILL_PATIENCE if 2 * ready >= pool.spec.size else 0.0

    def _pool_keys(self) -> list[Key]:
        """All pools, and those of which only Pods are left."""
        labels = {pod.metadata.labels.get(names.POOL, "") for _, pod in self._pods()} - {""}
        orphans = {Key(self.client.namespace, name) for name in labels}
        return list({*self.pool_informer.cache, *orphans})

    def _claim_keys(self) -> list[Key]:
        """All claims, and those of which only Pods are left."""
        orphans = {
            Key(self.client.namespace, name) for _, p in self._pods() for name in claim_of(p)
        }
        return list({*self.claim_informer.cache, *orphans})

    def _pods(self) -> list[tuple[Key, Pod]]:
        cache = self.pod_informer.cache
        return [(key, pod) for key in cache if (pod := cache.get(key)) is not None]

    async def _claims_of(self, workload: str) -> tuple[str, ...]:
        """List the claims that keep a workload; none only if the server agrees."""
        cached = _needing(self._claims_by_workload.get(workload), workload)
        return cached or _needing((await self.client.list(CLAIMS)).items, workload)

    def _lives(self, claim: Claim) -> bool:
        """Whether the instance of an Active claim is known, and not known to be going."""
        name = "" if claim.status is None else claim.status.instance_id
        pod = self.pod_informer.get(self.client.namespace, name)
        return pod is not None and pod.metadata.deletion_timestamp is None

    # Events wake keys. Waking one too many costs a pass that finds nothing to do.

    def _wire(self) -> None:
        self.workload_informer.subscribe(self._workload_changed)
        self.pool_informer.subscribe(lambda change: self.pools.queue.add(change.key))
        self.claim_informer.subscribe(self._claim_changed)
        self.pod_informer.subscribe(self._pod_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        self.workloads.queue.add(change.key)
        for pool in self._pools_by_workload.get(change.key.name):
            self.pools.queue.add(Key(pool.metadata.namespace, pool.metadata.name))
        for claim in self._claims_by_workload.get(change.key.name):
            if phase_of(claim) in (ClaimPhase.PENDING, ClaimPhase.ERROR):
                self.claims.queue.add(Key(claim.metadata.namespace, claim.metadata.name))

    def _claim_changed(self, change: Change[Claim]) -> None:
        self.claims.queue.add(change.key)
        if change.new is not None and not _keeps(change.new):
            self.workloads.queue.add(Key(change.key.namespace, change.new.spec.workload_ref))
        if change.new is not None and phase_of(change.new) != ClaimPhase.RELEASED:
            return
        # It is over: whoever was kept waiting by it may go on.
        for claim in (change.old, change.new):
            if claim is None:
                continue
            self.workloads.queue.add(Key(change.key.namespace, claim.spec.workload_ref))
            for other in self._claims_by_tenancy.get(tenancy(claim)):
                key = Key(other.metadata.namespace, other.metadata.name)
                if key != change.key:
                    self.memory.setbacks.clear(key)
                    self.claims.queue.add(key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in (change.old, change.new):
            if pod is None:
                continue
            for name in (*claim_of(pod), *self._claims_meaning(change.key.name)):
                claim = Key(change.key.namespace, name)
                self.claims.queue.add(claim)
                self.news.tell(claim)  # an Active claim may have been heard of before its Pod
            pool = pod.metadata.labels.get(names.POOL)
            if pool is not None:
                self.pools.queue.add_after(Key(change.key.namespace, pool), MERGED)
        if change.new is None:
            secret = names.agent_secret_name(change.key.name)
            self.secrets.queue.add(Key(change.key.namespace, secret))

    def _claims_meaning(self, pod: str) -> list[str]:
        return [claim.metadata.name for claim in self._claims_by_intent.get(pod)]


def _intended(claim: Claim) -> list[str]:
    if phase_of(claim) == ClaimPhase.RELEASED:
        return []
    intent = Intent.parse(claim.metadata.annotations.get(names.POD, ""))
    return [] if intent is None else [intent.pod]


def _needing(claims: list[Claim], workload: str) -> tuple[str, ...]:
    return tuple(
        claim.metadata.name
        for claim in claims
        if claim.spec.workload_ref == workload and _keeps(claim)
    )


def _keeps(claim: Claim) -> bool:
    """Whether a claim keeps its workload: not if it is over, or was refused and has no Pod.

    One that is refused because the workload is going would otherwise keep it from going.
    """
    if phase_of(claim) == ClaimPhase.ERROR:
        return bool(_intended(claim))
    return phase_of(claim) != ClaimPhase.RELEASED
