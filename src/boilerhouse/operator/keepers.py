"""Controllers of the objects around instances, which exist once however many instances there are.

HelperKeeper (snapshot helper), PolicyKeeper (NetworkPolicies),   ─► informers, controllers
BudgetKeeper (PodDisruptionBudgets), PostMortems (of the dead)         └─► the operator's Manager
"""

from __future__ import annotations

from typing import Any

from boilerhouse.core.clock import Clock, Random
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.disruptions.keep import BudgetKeeper
from boilerhouse.tenancy.networks.keep import PolicyKeeper
from boilerhouse.tenancy.postmortems.keep import PostMortems
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.ensure import HelperKeeper


class Keepers:
    """The four of them. `pods` and `claims` are the operator's own informers."""

    def __init__(
        self,
        client: Client,
        helper: HelperSettings,
        *,
        pods: Informer[Pod],
        claims: Informer[Claim],
        events: Events,
        clock: Clock,
        chance: Random,
        recorder: Recorder,
        gate: Gate,
        timing: Timing | None,
    ) -> None:
        shared: dict[str, Any] = {
            "clock": clock,
            "chance": chance,
            "recorder": recorder,
            "timing": timing,
        }
        kept = HelperKeeper(client, helper, **shared)
        policies = PolicyKeeper(client, **shared)
        budgets = BudgetKeeper(client, pods=pods, helper=kept.informer, gate=gate, **shared)
        dead = PostMortems(client, pods=pods, claims=claims, events=events, **shared)
        self.informers: list[Informer[Any]] = [
            kept.informer,
            policies.informer,
            budgets.informer,
            dead.informer,
        ]
        self.controllers: list[Controller[Any, Any, Any]] = [
            kept.controller,
            policies.controller,
            budgets.controller,
            dead.deaths,
            dead.sweeper,
        ]
