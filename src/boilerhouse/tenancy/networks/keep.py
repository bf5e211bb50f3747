"""Keeps the policies there: whoever deletes or changes one gets it back.

policy informer, and a look every five minutes ─► read (live) ─► decide ─► apply

A cluster that does not let us write policies says so in the log of each try, and instances run all
the same: what a network plugin enforces is the cluster's business, and nothing here can tell.
"""

from __future__ import annotations

from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.upkeep import Plan, Seen
from boilerhouse.node.helper.layout import COMPONENT
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.keeper import Keeper
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.networks import build

POLICIES: Resource[Dynamic] = Resource(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", Dynamic
)


class PolicyKeeper:
    """The controller of the policies, and the informer that wakes it."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        chance: Random,
        recorder: Recorder,
        timing: Timing | None = None,
    ) -> None:
        wanted = build.policies()
        keeper = Keeper("policy", client, POLICIES, wanted, wanted.get)
        self.informer: Informer[Dynamic] = Informer(
            client, POLICIES, labels={COMPONENT: build.POLICY}, timing=timing
        )
        self.keeper = keeper
        self.controller: Controller[Key, Seen, Plan] = Controller(
            "policies",
            read=keeper.read,
            decide=keeper.decide,
            apply=keeper.apply,
            keys=lambda: keeper.kept,
            clock=clock,
            chance=chance,
            recorder=recorder,
            workers=1,
            leader_only=True,
        )
        self.informer.subscribe(lambda change: self.controller.queue.add(change.key))
