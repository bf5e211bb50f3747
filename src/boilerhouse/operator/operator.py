"""The operator put together: informers, controllers, and what the API asks of them.

informers ─► waking.py ─► controllers (workloads, pools, claims, triggers, agents' Secrets)
                            ▲    whose passes come first: precedence.py
keepers.py ─► controllers of the objects around them (helper, policies, budgets, post-mortems)
REST API ─► Acquirer, Releaser   the same passes, run inline

One class for both worlds: `up` gives it the embedded API's transport, a cluster a kubeconfig. An
API replica beside the operator makes one too, with `reconcile=False`: informers and inline passes,
no workers.
"""

from __future__ import annotations

import asyncio
from typing import Any

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, Random, SystemClock, rng
from boilerhouse.operator.keepers import Keepers
from boilerhouse.operator.nodes import Nodes
from boilerhouse.operator.precedence import Precedence
from boilerhouse.operator.ties import intended, needing
from boilerhouse.operator.waking import Waking
from boilerhouse.platform.kube.cache import by_label
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Bare, Dynamic, Node, Pod
from boilerhouse.platform.kube.leader import Elector
from boilerhouse.platform.kube.news import News
from boilerhouse.platform.kube.resources import NODES, PODS, Key
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.manager import Manager
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.platform.loop.setbacks import Setbacks
from boilerhouse.tenancy.claims.apply import Applier as ClaimApplier
from boilerhouse.tenancy.claims.applying.files import Files
from boilerhouse.tenancy.claims.applying.hooks import ExecHooks
from boilerhouse.tenancy.claims.applying.jobs import SAVES, Jobs
from boilerhouse.tenancy.claims.applying.rivals import Rivals
from boilerhouse.tenancy.claims.decide import decide as decide_claim
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.read import Reader as ClaimReader
from boilerhouse.tenancy.claims.read import claim_of
from boilerhouse.tenancy.claims.reading.cordons import Cordons
from boilerhouse.tenancy.claims.reading.holdings import Holdings, tenancy
from boilerhouse.tenancy.claims.reading.memory import Memory
from boilerhouse.tenancy.claims.reading.spares import Spares
from boilerhouse.tenancy.claims.requests.acquire import Acquirer
from boilerhouse.tenancy.claims.requests.release import Releaser
from boilerhouse.tenancy.claims.seen import Plan as ClaimPlan
from boilerhouse.tenancy.claims.seen import Seen as ClaimSeen
from boilerhouse.tenancy.claims.snapshots import Hooks, Snapshots
from boilerhouse.tenancy.instances import sweep
from boilerhouse.tenancy.instances.blueprints import Blueprints
from boilerhouse.tenancy.instances.identity import Identities
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.patience import Patience
from boilerhouse.tenancy.instances.readiness import Readiness
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.pools.apply import Applier as PoolApplier
from boilerhouse.tenancy.pools.decide import decide as decide_pool
from boilerhouse.tenancy.pools.objects import POOLS, Pool
from boilerhouse.tenancy.pools.read import Reader as PoolReader
from boilerhouse.tenancy.pools.seen import Plan as PoolPlan
from boilerhouse.tenancy.pools.seen import Seen as PoolSeen
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.triggers.apply import Applier as TriggerApplier
from boilerhouse.tenancy.triggers.decide import Plan as TriggerPlan
from boilerhouse.tenancy.triggers.decide import Seen as TriggerSeen
from boilerhouse.tenancy.triggers.decide import decide as decide_trigger
from boilerhouse.tenancy.triggers.objects import TRIGGERS
from boilerhouse.tenancy.workloads.apply import Applier as WorkloadApplier
from boilerhouse.tenancy.workloads.decide import decide as decide_workload
from boilerhouse.tenancy.workloads.images import Images
from boilerhouse.tenancy.workloads.objects import WORKLOADS, Workload
from boilerhouse.tenancy.workloads.platform import Platform, TrustedPlatform
from boilerhouse.tenancy.workloads.read import Reader as WorkloadReader
from boilerhouse.tenancy.workloads.seen import Plan as WorkloadPlan
from boilerhouse.tenancy.workloads.seen import Seen as WorkloadSeen

SWEPT = 256  # Secrets whose last passes are kept


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
        platform: Platform | None = None,
        clock: Clock | None = None,
        chance: Random | None = None,
        elector: Elector | None = None,
        timing: Timing | None = None,
        gate: Gate | None = None,
        reconcile: bool = True,
        helper: HelperSettings | None = None,  # keep it, and all that keepers.py keeps
        saves: int = SAVES,
        at_hand: bool = False,  # see `ClaimApplier`
    ) -> None:
        self.client = client
        self.gate = gate or Gate()
        self._at_hand = at_hand
        self.clock = clock = clock or SystemClock()
        self._chance = chance = chance or rng()
        settings = settings or Settings()
        self.recorder = Recorder()
        self.events = Events(client, clock, gate=self.gate)

        self.workload_informer: Informer[Workload] = Informer(client, WORKLOADS, timing=timing)
        self.pool_informer: Informer[Pool] = Informer(client, POOLS, timing=timing)
        self.claim_informer: Informer[Claim] = Informer(client, CLAIMS, timing=timing)
        self.pod_informer: Informer[Pod] = Informer(
            client, PODS, labels={names.MANAGED: "true"}, timing=timing
        )
        self.trigger_informer: Informer[Dynamic] = Informer(client, TRIGGERS, timing=timing)
        self.node_informer: Informer[Node] = Informer(client, NODES, timing=timing)
        self.secret_informer: Informer[Bare] = Informer(
            client, sweep.SECRET_NAMES, labels={names.AGENT: "true"}, timing=timing
        )
        self._claims_by_intent = self.claim_informer.index(intended)
        self._claims_by_workload = self.claim_informer.index(lambda c: [c.spec.workload_ref])
        self._claims_by_tenancy = self.claim_informer.index(lambda c: [tenancy(c)])
        self.holdings = Holdings(client, self._claims_by_tenancy)
        pools_by_workload = self.pool_informer.index(lambda p: [p.spec.workload_ref])

        nodes = Nodes(self.node_informer)
        self.instances = Instances(client, self.pod_informer)
        self.blueprints = Blueprints(client, self.workload_informer, settings)
        self.memory = Memory(clock, chance)
        self._claim_writer = Writer(client, CLAIMS, self.claim_informer)
        self._readiness = Readiness(client, clock)
        self.jobs = Jobs(lambda key: self.claims.queue.add(key), saves=saves, here=reconcile)
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
        self.precedence = Precedence(
            self.claim_informer,
            self.pod_informer,
            self.pool_informer,
            self.blueprints,
            self.spares,
            self.memory.changes,
            clock,
        )

        self.workloads = self._workloads(images, platform or TrustedPlatform())
        self.pools = self._pools(settings)
        self.claims = self._claims(identities, settings, nodes)
        self.triggers = self._triggers()
        secrets = Writer(client, sweep.SECRET_NAMES, self.secret_informer)
        sweeper = sweep.Sweeper(client, secrets, self.pod_informer, clock)
        self.secrets: Controller[Key, sweep.Seen, sweep.Delete | sweep.Wait] = Controller(
            "secrets",
            read=sweeper.read,
            decide=sweep.decide,
            apply=sweeper.apply,
            keys=lambda: list(self.secret_informer.cache),
            gate=self.gate,
            # Each instance has a Secret of its own: theirs would push out what claims have seen.
            **self._loop(workers=2) | {"recorder": Recorder(objects=SWEPT)},
        )
        self.acquirer = Acquirer(
            client=client,
            claims=self.claim_informer,
            writer=self._claim_writer,
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
            client, self.claim_informer, self.claims, self.news, clock, self.holdings, self.gate
        )
        self.informers: tuple[Informer[Any], ...] = (
            self.workload_informer,
            self.pool_informer,
            self.claim_informer,
            self.pod_informer,
            self.trigger_informer,
            self.node_informer,
            self.secret_informer,
        )
        controllers: list[Controller[Any, Any, Any]] = []
        unawaited: list[Informer[Any]] = []
        if reconcile:
            controllers += [self.workloads, self.pools, self.claims, self.triggers, self.secrets]
        if helper is not None:
            keepers = Keepers(
                client,
                helper,
                pods=self.pod_informer,
                claims=self.claim_informer,
                events=self.events,
                clock=clock,
                chance=chance,
                recorder=self.recorder,
                gate=self.gate,
                timing=timing,
            )
            controllers += keepers.controllers
            unawaited += keepers.informers
        self.manager = Manager(
            sources=self.informers, controllers=controllers, unawaited=unawaited, elector=elector
        )
        Waking(
            workloads=self.workloads.queue,
            pools=self.pools.queue,
            claims=self.claims.queue,
            secrets=self.secrets.queue,
            by_intent=self._claims_by_intent,
            by_workload=self._claims_by_workload,
            by_tenancy=self._claims_by_tenancy,
            pools_by_workload=pools_by_workload,
            setbacks=self.memory.setbacks,
            news=self.news,
            hurry=self.jobs.hurry,
        ).listen(self.workload_informer, self.pool_informer, self.claim_informer, self.pod_informer)

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

    def _workloads(
        self, images: Images, platform: Platform
    ) -> Controller[Key, WorkloadSeen, WorkloadPlan]:
        reader = WorkloadReader(
            self.client, self.workload_informer, images, self._claims_of, self.clock, platform
        )
        writer = Writer(self.client, WORKLOADS, self.workload_informer)
        applier = WorkloadApplier(writer, self.events)
        return Controller(
            "workloads",
            read=reader.read,
            decide=decide_workload,
            apply=applier.apply,
            keys=lambda: list(self.workload_informer.cache),
            gate=self.gate,
            priority=self.precedence.of_workload,
            **self._loop(workers=4),
        )

    def _pools(self, settings: Settings) -> Controller[Key, PoolSeen, PoolPlan]:
        refusals: Setbacks[Key] = Setbacks(self.clock, self._chance)
        failures: Setbacks[Key] = Setbacks(self.clock, self._chance)
        writer = Writer(self.client, POOLS, self.pool_informer)
        reader = PoolReader(
            client=self.client,
            pools=writer,
            instances=self.instances,
            by_pool=self.pod_informer.index(by_label(names.POOL)),
            blueprints=self.blueprints,
            refusals=refusals,
            failures=failures,
            patience=Patience(self.clock),
            readiness=self._readiness,
            clock=self.clock,
            chance=self._chance,
        )
        applier = PoolApplier(
            pools=writer,
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
            gate=self.gate,
            priority=self.precedence.of_pool,
            **self._loop(workers=4),
        )

    def _claims(
        self, identities: Identities, settings: Settings, nodes: Nodes
    ) -> Controller[Key, ClaimSeen, ClaimPlan]:
        self._pods_by_claim = self.pod_informer.index(claim_of)
        reader = ClaimReader(
            claims=self._claim_writer,
            instances=self.instances,
            by_claim=self._pods_by_claim,
            blueprints=self.blueprints,
            spares=self.spares,
            memory=self.memory,
            jobs=self.jobs,
            healthy=nodes.healthy,
            turn=self.cordons.turn,
            patience=Patience(self.clock),
            readiness=self._readiness,
            clock=self.clock,
        )
        applier = ClaimApplier(
            claims=self._claim_writer,
            instances=self.instances,
            identities=identities,
            rivals=Rivals(self.client),
            files=self._files,
            jobs=self.jobs,
            memory=self.memory,
            events=self.events,
            settings=settings,
            at_hand=self._at_hand,
        )
        return Controller(
            "claims",
            read=reader.read,
            decide=decide_claim,
            apply=applier.apply,
            keys=self._claim_keys,
            gate=self.gate,
            priority=self.precedence.of_claim,
            **self._loop(),
        )

    def _triggers(self) -> Controller[Key, TriggerSeen, TriggerPlan]:
        writer = Writer(self.client, TRIGGERS, self.trigger_informer)
        applier = TriggerApplier(writer, self.events, self.clock)
        controller: Controller[Key, TriggerSeen, TriggerPlan] = Controller(
            "triggers",
            read=applier.read,
            decide=decide_trigger,
            apply=applier.apply,
            keys=lambda: list(self.trigger_informer.cache),
            gate=self.gate,
            **self._loop(workers=1),
        )
        self.trigger_informer.subscribe(lambda change: controller.queue.add(change.key))
        return controller

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
        cached = needing(self._claims_by_workload.get(workload), workload)
        return cached or needing((await self.client.list(CLAIMS)).items, workload)

    def _lives(self, claim: Claim) -> bool:
        """Whether the instance of an Active claim is known, and not known to be going."""
        name = "" if claim.status is None else claim.status.instance_id
        pod = self.pod_informer.get(self.client.namespace, name)
        return pod is not None and pod.metadata.deletion_timestamp is None
