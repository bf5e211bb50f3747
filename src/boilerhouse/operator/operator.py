"""The operator put together: controllers, and what the API asks of them.

parts.py ─► controllers.py (workloads, pools, claims, triggers, agents' Secrets) ─► Manager
         └► keepers.py     (helper, policies, budgets, post-mortems)            ─►
REST API ─► Acquirer, Releaser   the same passes, run inline

One class for both worlds: `up` gives it the embedded API's transport, a cluster a kubeconfig. An
API replica beside the operator makes one too, with `reconcile=False`: informers and inline passes,
no workers.
"""

from __future__ import annotations

import asyncio
from typing import Any

from boilerhouse.core.clock import Clock, Random
from boilerhouse.operator import controllers
from boilerhouse.operator.declaration import Loop, sources
from boilerhouse.operator.keepers import keepers
from boilerhouse.operator.parts import Parts
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.manager import Elector, Manager
from boilerhouse.platform.loop.priority import Gate
from boilerhouse.tenancy.claims.applying.hooks import ExecHooks
from boilerhouse.tenancy.claims.applying.jobs import SAVES
from boilerhouse.tenancy.claims.requests.acquire import Acquirer
from boilerhouse.tenancy.claims.requests.release import Releaser
from boilerhouse.tenancy.claims.snapshots import Hooks, Snapshots
from boilerhouse.tenancy.instances.identity import Identities
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.workloads.images import Images
from boilerhouse.tenancy.workloads.platform import Platform, TrustedPlatform


class Operator(Parts):
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
        rng: Random | None = None,
        elector: Elector | None = None,
        timing: Timing | None = None,
        gate: Gate | None = None,
        reconcile: bool = True,
        helper: HelperSettings | None = None,  # keep it, and all that keepers.py keeps
        saves: int = SAVES,
        at_hand: bool = False,  # see `ClaimApplier`
    ) -> None:
        super().__init__(
            client,
            settings=settings,
            clock=clock,
            rng=rng,
            timing=timing,
            gate=gate,
            saves=saves,
            jobs_here=reconcile,
        )
        make = Loop(self.clock, self.rng, self.recorder, self.gate).controller
        hooks = hooks or ExecHooks(client)
        self.workloads = make(controllers.workloads(self, images, platform or TrustedPlatform()))
        self.pools = make(controllers.pools(self))
        self.claims = make(controllers.claims(self, identities, snapshots, hooks, at_hand=at_hand))
        self.triggers = make(controllers.triggers(self))
        self.secrets = make(controllers.secrets(self))
        self.acquirer = Acquirer(
            client=client,
            claims=self.claim_informer,
            writer=self.claim_writer,
            blueprints=self.blueprints,
            spares=self.spares,
            memory=self.memory,
            controller=self.claims,
            notifier=self.notifier,
            clock=self.clock,
            holdings=self.holdings,
            alive=self.lives,
        )
        self.releaser = Releaser(
            client=client,
            claims=self.claim_informer,
            controller=self.claims,
            notifier=self.notifier,
            clock=self.clock,
            holdings=self.holdings,
            gate=self.gate,
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
        running: list[Controller[Any, Any, Any]] = []
        if reconcile:
            running += [self.workloads, self.pools, self.claims, self.triggers, self.secrets]
        kept = [] if helper is None else keepers(self, helper)
        self.manager = Manager(
            sources=self.informers,
            controllers=[*running, *map(make, kept)],
            unawaited=[own for own in sources(kept) if own not in self.informers],
            elector=elector,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set; what is under way then is finished."""
        async with self.events.running():
            try:
                await self.manager.run(stopping)
            finally:
                await self.jobs.close()
