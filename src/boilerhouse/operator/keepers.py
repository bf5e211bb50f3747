"""Controllers of the objects around instances, which exist once however many instances there are.

snapshot helper, NetworkPolicies, PodDisruptionBudgets, post-mortems of the dead: each declared once
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from boilerhouse.core import upkeep
from boilerhouse.node.helper import layout
from boilerhouse.operator.declaration import Declaration, Watch, at_once
from boilerhouse.operator.parts import Parts
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.keeper import Keeper
from boilerhouse.platform.kube.kinds import Dynamic, Pod
from boilerhouse.platform.kube.resources import (
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    PODS,
    SECRET_NAMES,
    Key,
)
from boilerhouse.tenancy.disruptions.build import BUDGET, BUDGETS
from boilerhouse.tenancy.disruptions.keep import EVERY, Budgets, counts, spec_changed
from boilerhouse.tenancy.networks.build import POLICY, policies
from boilerhouse.tenancy.postmortems import decide as postmortem
from boilerhouse.tenancy.postmortems.keep import Dead, PostMortems
from boilerhouse.tenancy.postmortems.model import COMPONENT, POST_MORTEM
from boilerhouse.tenancy.snapshots import decide as helper_decision
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.ensure import HelperKeeper


def keepers(parts: Parts, settings: HelperSettings) -> list[Declaration[Any, Any]]:
    """Return all of them."""
    client, timing = parts.client, parts.timing
    kept = helper(client, settings, timing)
    (watch,) = kept.watches
    dead = PostMortems(
        client,
        pods=parts.pod_informer,
        claims=parts.claim_informer,
        written=Informer(client, SECRET_NAMES, labels={COMPONENT: POST_MORTEM}, timing=timing),
        events=parts.events,
        clock=parts.clock,
    )
    return [
        kept,
        network_policies(client, timing),
        budgets(client, parts.pod_informer, watch.informer, timing),
        deaths(dead),
        postmortems(dead),
    ]


def helper(
    client: Client, settings: HelperSettings, timing: Timing | None = None
) -> Declaration[helper_decision.Seen, helper_decision.Plan]:
    """The Pod that saves and restores files, its token and its volume."""
    keeper = HelperKeeper(client, settings)
    pod: Informer[Pod] = Informer(client, PODS, fields=f"metadata.name={layout.POD}", timing=timing)
    return Declaration(
        "helper",
        read=keeper.read,
        decide=helper_decision.decide,
        apply=keeper.apply,
        watches=(Watch(pod),),
        keys=lambda: [Key(client.namespace, layout.POD)],
        priority=at_once,
    )


def network_policies(
    client: Client, timing: Timing | None = None
) -> Declaration[upkeep.Seen, upkeep.Plan]:
    """What instances may reach, and who may reach them."""
    wanted = policies()
    keeper = Keeper("policy", client, NETWORK_POLICIES, wanted, wanted.get)
    there: Informer[Dynamic] = Informer(
        client, NETWORK_POLICIES, labels={layout.COMPONENT: POLICY}, timing=timing
    )
    return Declaration(
        "policies",
        read=keeper.read,
        decide=keeper.decide,
        apply=keeper.apply,
        watches=(Watch(there),),
        keys=lambda: keeper.kept,
        priority=at_once,
    )


def budgets(
    client: Client,
    pods: Informer[Pod],
    helper: Informer[Pod],
    timing: Timing | None = None,
    every: timedelta = EVERY,
) -> Declaration[upkeep.Seen, upkeep.Plan]:
    """How many instances, and whether the helper, must not be evicted."""
    counted = Budgets(client, pods, helper)
    keeper = Keeper(
        "budget",
        client,
        DISRUPTION_BUDGETS,
        BUDGETS,
        counted.wanted,
        moving=True,
        soon=every,
    )
    there: Informer[Dynamic] = Informer(
        client, DISRUPTION_BUDGETS, labels={layout.COMPONENT: BUDGET}, timing=timing
    )
    return Declaration(
        "budgets",
        read=keeper.read,
        decide=keeper.decide,
        apply=keeper.apply,
        watches=(
            Watch(there, spec_changed, every),
            Watch(helper, lambda change: keeper.kept, every),
            Watch(pods, lambda change: keeper.kept if counts(change) else (), every),
        ),
        keys=lambda: keeper.kept,
    )


def deaths(dead: PostMortems) -> Declaration[Dead, bool]:
    """Of instances: written down while there is still a log of them."""
    return Declaration(
        "deaths",
        read=dead.read_death,
        decide=lambda seen: not seen.known,
        apply=dead.write,
        watches=(Watch(dead.pods, dead.died),),
        keys=dead.noticed,
        workers=2,
        priority=at_once,
    )


def postmortems(dead: PostMortems) -> Declaration[postmortem.Seen, postmortem.Plan]:
    """What was written of the dead: the oldest go."""
    return Declaration(
        "postmortems",
        read=dead.read_written,
        decide=postmortem.decide,
        apply=dead.sweep,
        watches=(Watch(dead.written, dead.written_changed),),
        priority=at_once,
    )
