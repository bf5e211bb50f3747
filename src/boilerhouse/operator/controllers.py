"""The controllers of our kinds, each declared once.

A new one is a folder of its own and a function here: docs/adding-a-controller.md.
"""

from __future__ import annotations

from datetime import timedelta

from boilerhouse.core import names
from boilerhouse.operator import event_routes as waking
from boilerhouse.operator.declaration import Declaration, Watch
from boilerhouse.operator.parts import Parts
from boilerhouse.platform.kube.cache import by_label
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.resources import SECRET_NAMES, Key
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.platform.loop.stepfailures import StepFailures
from boilerhouse.tenancy.claims import decide as claim_decision
from boilerhouse.tenancy.claims import seen as claim
from boilerhouse.tenancy.claims.apply import Applier as ClaimApplier
from boilerhouse.tenancy.claims.applying.files import Files
from boilerhouse.tenancy.claims.applying.rivals import Rivals
from boilerhouse.tenancy.claims.read import Reader as ClaimReader
from boilerhouse.tenancy.claims.read import claim_of
from boilerhouse.tenancy.claims.snapshots import Hooks, Snapshots
from boilerhouse.tenancy.instances import sweep
from boilerhouse.tenancy.instances.identity import Identities
from boilerhouse.tenancy.instances.patience import Patience
from boilerhouse.tenancy.pools import decide as pool_decision
from boilerhouse.tenancy.pools import seen as pool
from boilerhouse.tenancy.pools.apply import Applier as PoolApplier
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.pools.read import Reader as PoolReader
from boilerhouse.tenancy.triggers import decide as trigger
from boilerhouse.tenancy.triggers.apply import Applier as TriggerApplier
from boilerhouse.tenancy.triggers.objects import TRIGGERS
from boilerhouse.tenancy.triggers.read import Reader as TriggerReader
from boilerhouse.tenancy.workloads import decide as workload_decision
from boilerhouse.tenancy.workloads import seen as workload
from boilerhouse.tenancy.workloads.apply import Applier as WorkloadApplier
from boilerhouse.tenancy.workloads.images import Images
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from boilerhouse.tenancy.workloads.platform import Platform
from boilerhouse.tenancy.workloads.read import Reader as WorkloadReader

# A pool looks at all its Pods in each pass, a workload at its whole spec. So that a burst of claims
# is one pass and not one for each claim, what happens within this time is looked at together.
MERGED = timedelta(milliseconds=20)
SWEPT = 256  # Secrets whose last passes are kept


def workloads(
    parts: Parts, images: Images, platform: Platform
) -> Declaration[workload.Seen, workload.Plan]:
    """Checked, and held while claims need them."""
    writer = Writer(parts.client, WORKLOADS, parts.workload_informer)
    reader = WorkloadReader(
        parts.client, parts.workload_informer, images, parts.claims_of, parts.clock, platform
    )
    return Declaration(
        "workloads",
        read=reader.read,
        decide=workload_decision.decide,
        apply=WorkloadApplier(writer, parts.events).apply,
        watches=(
            Watch(parts.workload_informer),
            Watch(parts.claim_informer, waking.workload_of_claim, MERGED),
        ),
        workers=4,
        priority=parts.precedence.of_workload,
    )


def pools(parts: Parts) -> Declaration[pool.Seen, pool.Plan]:
    """Kept full of warm instances."""
    writer = Writer(parts.client, POOLS, parts.pool_informer)
    refusals: StepFailures[Key] = StepFailures(parts.clock, parts.rng)
    failures: StepFailures[Key] = StepFailures(parts.clock, parts.rng)
    reader = PoolReader(
        client=parts.client,
        pools=writer,
        instances=parts.instances,
        by_pool=parts.pod_informer.index(by_label(names.POOL)),
        blueprints=parts.blueprints,
        refusals=refusals,
        failures=failures,
        patience=Patience(parts.clock),
        readiness=parts.readiness,
        clock=parts.clock,
        rng=parts.rng,
    )
    applier = PoolApplier(
        pools=writer,
        instances=parts.instances,
        refusals=refusals,
        failures=failures,
        events=parts.events,
        settings=parts.settings,
    )
    return Declaration(
        "pools",
        read=reader.read,
        decide=pool_decision.decide,
        apply=applier.apply,
        watches=(
            Watch(parts.pool_informer),
            Watch(parts.workload_informer, parts.waking.pools_of_workload),
            Watch(parts.pod_informer, waking.pool_of_pod, MERGED),
        ),
        keys=parts.pool_keys,
        workers=4,
        priority=parts.precedence.of_pool,
    )


def claims(
    parts: Parts, identities: Identities, snapshots: Snapshots, hooks: Hooks, *, at_hand: bool
) -> Declaration[claim.Seen, claim.Plan]:
    """Given an instance, kept, and released. For `at_hand` see `ClaimApplier`."""
    reader = ClaimReader(
        claims=parts.claim_writer,
        instances=parts.instances,
        by_claim=parts.pod_informer.index(claim_of),
        blueprints=parts.blueprints,
        spares=parts.spares,
        memory=parts.memory,
        jobs=parts.jobs,
        healthy=parts.nodes.healthy,
        turn=parts.cordons.turn,
        patience=Patience(parts.clock),
        readiness=parts.readiness,
        clock=parts.clock,
    )
    applier = ClaimApplier(
        claims=parts.claim_writer,
        instances=parts.instances,
        identities=identities,
        rivals=Rivals(parts.client),
        files=Files(snapshots, hooks, parts.instances, parts.memory, parts.events),
        jobs=parts.jobs,
        memory=parts.memory,
        events=parts.events,
        settings=parts.settings,
        at_hand=at_hand,
    )
    return Declaration(
        "claims",
        read=reader.read,
        decide=claim_decision.decide,
        apply=applier.apply,
        watches=(
            Watch(parts.claim_informer, parts.waking.claims_of_claim),
            Watch(parts.workload_informer, parts.waking.claims_of_workload),
            Watch(parts.pod_informer, parts.waking.claims_of_pod),
        ),
        keys=parts.claim_keys,
        workers=16,
        priority=parts.precedence.of_claim,
    )


def triggers(parts: Parts) -> Declaration[trigger.Seen, trigger.Plan]:
    """Told that nothing listens yet."""
    return Declaration(
        "triggers",
        read=TriggerReader(parts.trigger_informer, parts.clock).read,
        decide=trigger.decide,
        apply=TriggerApplier(
            Writer(parts.client, TRIGGERS, parts.trigger_informer), parts.events
        ).apply,
        watches=(Watch(parts.trigger_informer),),
    )


def secrets(parts: Parts) -> Declaration[sweep.Seen, sweep.Plan]:
    """Of agents whose instance is gone: swept."""
    writer = Writer(parts.client, SECRET_NAMES, parts.secret_informer)
    sweeper = sweep.Sweeper(parts.client, writer, parts.pod_informer, parts.clock)
    return Declaration(
        "secrets",
        read=sweeper.read,
        decide=sweep.decide,
        apply=sweeper.apply,
        watches=(Watch(parts.pod_informer, waking.secret_of_pod),),
        keys=lambda: list(parts.secret_informer.cache),
        workers=2,
        # Each instance has a Secret of its own: theirs would push out what claims have seen.
        recorder=Recorder(objects=SWEPT),
    )
