"""What controllers share: informers, their indexes, and what is remembered between passes.

client ─► informers ─► indexes, caches, memory ─► controllers.py, and the REST API
"""

from __future__ import annotations

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, Random, SystemClock, new_rng
from boilerhouse.operator.event_routes import EventRoutes
from boilerhouse.operator.nodes import Nodes
from boilerhouse.operator.precedence import Precedence
from boilerhouse.operator.references import intended, needing
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Bare, Dynamic, Node, Pod
from boilerhouse.platform.kube.notifier import ChangeNotifier
from boilerhouse.platform.kube.resources import NODES, PODS, SECRET_NAMES, Key
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.claims.applying.jobs import Jobs
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.read import claim_of
from boilerhouse.tenancy.claims.reading.cordons import Cordons
from boilerhouse.tenancy.claims.reading.holdings import Holdings, tenancy
from boilerhouse.tenancy.claims.reading.memory import Memory
from boilerhouse.tenancy.claims.reading.spares import Spares
from boilerhouse.tenancy.claims.seen import Plan as ClaimPlan
from boilerhouse.tenancy.claims.seen import Seen as ClaimSeen
from boilerhouse.tenancy.instances.blueprints import Blueprints
from boilerhouse.tenancy.instances.objects import Instances
from boilerhouse.tenancy.instances.readiness import Readiness
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.pools.objects import POOLS, Pool
from boilerhouse.tenancy.triggers.objects import TRIGGERS
from boilerhouse.tenancy.workloads.objects import WORKLOADS, Workload


class Parts:
    """The parts of one namespace, the client's."""

    claims: Controller[Key, ClaimSeen, ClaimPlan]  # the controller that some of them wake

    def __init__(
        self,
        client: Client,
        *,
        settings: Settings | None,
        clock: Clock | None,
        rng: Random | None,
        timing: Timing | None,
        gate: Gate | None,
        saves: int,
        jobs_here: bool,
    ) -> None:
        self.client = client
        self.gate = gate or Gate()
        self.clock = clock or SystemClock()
        self.rng = rng or new_rng()
        self.settings = settings or Settings()
        self.timing = timing
        self.recorder = Recorder()
        self.events = Events(client, self.clock, gate=self.gate)

        self.workload_informer: Informer[Workload] = Informer(client, WORKLOADS, timing=timing)
        self.pool_informer: Informer[Pool] = Informer(client, POOLS, timing=timing)
        self.claim_informer: Informer[Claim] = Informer(client, CLAIMS, timing=timing)
        self.pod_informer: Informer[Pod] = Informer(
            client, PODS, labels={names.MANAGED: "true"}, timing=timing
        )
        self.trigger_informer: Informer[Dynamic] = Informer(client, TRIGGERS, timing=timing)
        self.node_informer: Informer[Node] = Informer(client, NODES, timing=timing)
        self.secret_informer: Informer[Bare] = Informer(
            client, SECRET_NAMES, labels={names.AGENT: "true"}, timing=timing
        )
        by_intent = self.claim_informer.index(intended)
        by_tenancy = self.claim_informer.index(lambda claim: [tenancy(claim)])
        self._by_workload = self.claim_informer.index(lambda claim: [claim.spec.workload_ref])

        self.nodes = Nodes(self.node_informer)
        self.claim_writer = Writer(client, CLAIMS, self.claim_informer)
        self.instances = Instances(client, self.pod_informer)
        self.blueprints = Blueprints(client, self.workload_informer, self.settings)
        self.readiness = Readiness(client, self.clock)
        self.holdings = Holdings(client, by_tenancy)
        self.memory = Memory(self.clock, self.rng)
        self.notifier: ChangeNotifier[Claim] = ChangeNotifier(self.claim_informer)
        self.jobs = Jobs(self._wake_claim, saves=saves, here=jobs_here)
        self.spares = Spares(
            self.pod_informer,
            self.clock,
            healthy=self.nodes.healthy,
            chosen=lambda pod: by_intent.count(pod) > 0,
        )
        self.cordons = Cordons(
            self.node_informer, self.pod_informer, self.claim_informer, wake=self._wake_claim
        )
        self.precedence = Precedence(
            self.claim_informer,
            self.pod_informer,
            self.pool_informer,
            self.blueprints,
            self.spares,
            self.memory.changes,
            self.clock,
        )
        self.waking = EventRoutes(
            by_intent=by_intent,
            by_workload=self._by_workload,
            by_tenancy=by_tenancy,
            pools_by_workload=self.pool_informer.index(lambda pool: [pool.spec.workload_ref]),
            failures=self.memory.failures,
            notifier=self.notifier,
            hurry=self.jobs.hurry,
        )

    def _wake_claim(self, key: Key) -> None:
        self.claims.queue.add(key)

    def pool_keys(self) -> set[Key]:
        """All pools, and those of which only Pods are left."""
        pods = self.pod_informer.cache.values()
        labels = {pod.metadata.labels.get(names.POOL, "") for pod in pods} - {""}
        return {*self.pool_informer.cache, *(Key(self.client.namespace, name) for name in labels)}

    def claim_keys(self) -> set[Key]:
        """All claims, and those of which only Pods are left."""
        carried = {name for pod in self.pod_informer.cache.values() for name in claim_of(pod)}
        return {*self.claim_informer.cache, *(Key(self.client.namespace, n) for n in carried)}

    async def claims_of(self, workload: str) -> tuple[str, ...]:
        """List the claims that keep a workload; none only if the server agrees."""
        cached = needing(self._by_workload.get(workload), workload)
        return cached or needing((await self.client.list(CLAIMS)).items, workload)

    def lives(self, claim: Claim) -> bool:
        """Whether the instance of an Active claim is known, and not known to be going."""
        name = "" if claim.status is None else claim.status.instance_id
        pod = self.pod_informer.get(self.client.namespace, name)
        return pod is not None and pod.metadata.deletion_timestamp is None
