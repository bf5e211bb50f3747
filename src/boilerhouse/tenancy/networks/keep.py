"""Keeps the policies there: whoever deletes or changes one gets it back.

policy informer, and a look every five minutes ─► read (live) ─► decide ─► apply

A cluster that does not let us write policies says so in the log of each try, and instances run all
the same: what a network plugin enforces is the cluster's business, and nothing here can tell.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta

import structlog

from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.upkeep import Create, Plan, Replace, Seen, There, decide
from boilerhouse.node.helper.layout import COMPONENT
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.kube.status import AlreadyExists, Conflict, NotFound
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.networks import build

log = structlog.get_logger(__name__)

POLICIES: Resource[Dynamic] = Resource(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", Dynamic
)
LOOK_AGAIN = timedelta(minutes=5)  # somebody may take our label off, which no event tells


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
        self._client = client
        self._wanted = build.policies()
        self.informer: Informer[Dynamic] = Informer(
            client, POLICIES, labels={COMPONENT: build.POLICY}, timing=timing
        )
        self.controller: Controller[Key, Seen, Plan] = Controller(
            "policies",
            read=self.read,
            decide=decide,
            apply=self.apply,
            keys=lambda: [Key(client.namespace, name) for name in self._wanted],
            clock=clock,
            chance=chance,
            recorder=recorder,
            workers=1,
            leader_only=True,
        )
        self.informer.subscribe(lambda change: self.controller.queue.add(change.key))

    async def read(self, key: Key) -> Seen | None:
        """Look at one policy, live; None if it is none of ours any more."""
        wanted = self._wanted.get(key.name)
        if wanted is None:
            return None
        try:
            found = await self._client.get(POLICIES, key.name)
        except NotFound:
            return Seen(wanted, None)
        meta = found.metadata
        return Seen(wanted, There(meta.uid, meta.resource_version, found.spec))

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta:
        """Make it so; what another process did meanwhile is looked at again."""
        with contextlib.suppress(AlreadyExists, Conflict, NotFound):
            match plan:
                case Create(body):
                    log.info("policy.created", policy=key.name)
                    await self._client.create(POLICIES, body)
                case Replace(uid, version, body):
                    log.warning("policy.restored", policy=key.name)
                    meta = {**body["metadata"], "uid": uid, "resourceVersion": version}
                    await self._client.replace(POLICIES, {**body, "metadata": meta})
        return LOOK_AGAIN
