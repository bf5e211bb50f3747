"""Everything that handlers reach for, put together once per process.

Operator (client, informers, inline passes) ─► Services ─► handlers (injected by name: `services`)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from litestar.di import NamedDependency

from boilerhouse.core import names, supervision
from boilerhouse.core.clock import Clock
from boilerhouse.core.condition import ConditionStatus, find
from boilerhouse.core.errors import Retry
from boilerhouse.edge.api.activity import Activity
from boilerhouse.edge.api.auth import Auth
from boilerhouse.edge.api.errors import not_found
from boilerhouse.edge.api.events import Feed
from boilerhouse.edge.api.hangup import Streams
from boilerhouse.edge.api.informers import Informers
from boilerhouse.edge.api.shares import Shares
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Dynamic, Pod
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.kube.status import ApiError, BadRequest, Forbidden, NotFound
from boilerhouse.platform.kube.wire import Request
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.claims.decide import IDENTITY_DELIVERED
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from boilerhouse.tenancy.workloads.images import ImageShelf
from boilerhouse.tenancy.workloads.objects import WORKLOADS

READY = 5.0  # seconds in which the Kubernetes API should say how it is
IDENTITY_WAIT = timedelta(seconds=5)  # after which a claimed instance should know whose it is
# What may go on at the same time, over all tenants and callers; one has a part of it (shares.py).
COMMANDS = 64
PROXIED = 512  # requests that are passed on
LOGS = 256  # that are read or followed
FILES = 64  # of instances, read or written
UPLOADS = 16  # of archives
DOWNLOADS = 16  # of archives
LISTENERS = 1000  # to the feed of events
HELD = 1024  # calls that wait for a claim or a release


@dataclass(frozen=True, slots=True)
class Services:
    """The API's world: an operator, whether it reconciles here or not, and what only we need."""

    operator: Operator
    informers: Informers
    activity: Activity
    feed: Feed
    auth: Auth
    helper: HelperClient | None = None  # the way to what lies in instances
    snapshots: SnapshotClient | None = None  # and to what was saved of them
    shelf: ImageShelf | None = None  # the images of one machine; a cluster has none
    # What is not as it should be although requests are served, in sentences.
    warnings: Callable[[], list[str]] = list
    awaits_helper: bool = False  # it starts with us: we are not ready before it is
    helper_came: asyncio.Event = field(default_factory=asyncio.Event)
    streams: Streams = field(default_factory=Streams)
    commands: Shares = field(default_factory=lambda: Shares("commands", COMMANDS))
    proxied: Shares = field(default_factory=lambda: Shares("proxied requests", PROXIED))
    logs: Shares = field(default_factory=lambda: Shares("logs", LOGS))
    files: Shares = field(default_factory=lambda: Shares("file transfers", FILES))
    uploads: Shares = field(default_factory=lambda: Shares("uploads of archives", UPLOADS))
    downloads: Shares = field(default_factory=lambda: Shares("downloads of archives", DOWNLOADS))
    listeners: Shares = field(default_factory=lambda: Shares("listeners", LISTENERS))
    held: Shares = field(default_factory=lambda: Shares("waiting calls", HELD))
    agents_turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # to write triggers

    @classmethod
    def of(
        cls,
        operator: Operator,
        *,
        signing: bytes,
        key: str = "",
        helper: HelperClient | None = None,
        snapshots: SnapshotClient | None = None,
        shelf: ImageShelf | None = None,
        warnings: Callable[[], list[str]] = list,
        awaits_helper: bool = False,
        commands: int = COMMANDS,
    ) -> Services:
        """Put it together around an operator that does not run yet, so that nothing is missed."""
        informers = Informers(
            operator.pod_informer,
            operator.claim_informer,
            operator.workload_informer,
            operator.pool_informer,
            operator.trigger_informer,
        )
        client, clock = operator.client, operator.clock
        return cls(
            operator,
            informers,
            Activity(client, informers.claims, informers.workloads, clock),
            Feed(informers, clock),
            Auth(client, informers, clock, signing=signing, key=key),
            helper,
            snapshots,
            shelf,
            warnings,
            awaits_helper,
            commands=Shares("commands", commands),
        )

    @property
    def client(self) -> Client:
        return self.operator.client

    @property
    def clock(self) -> Clock:
        return self.operator.clock

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """At the end, write down what is known."""
        try:
            yield
        finally:
            self.feed.close()
            await self.activity.flush()

    def stop_streams(self) -> None:
        """End everything that waits or would go on for ever, so that the server can stop."""
        self.feed.close()
        self.streams.end()

    async def complaints(self) -> list[str]:
        """Say what is wrong with this process and the server behind it; empty when nothing is."""
        # Those that are read here tell of their first list, too; all of them, of being deaf.
        informers = [*self.informers.complaints(), *self.operator.manager.unhealthy()]
        return [
            *dict.fromkeys(informers),
            *supervision.complaints(),
            *await self._unready(),
            *await self._without_helper(),
        ]

    async def _without_helper(self) -> list[str]:
        """Say whether the helper that starts with us has not come yet.

        Once it came its absence is told where it is missed: most calls do not need it.
        """
        if not self.awaits_helper or self.helper_came.is_set() or self.snapshots is None:
            return []
        try:
            async with asyncio.timeout(READY):
                await self.snapshots.check()
        except TimeoutError:
            return ["starting: the snapshot helper does not answer"]
        except (Retry, Refused) as error:
            return [f"starting: {error}"]
        self.helper_came.set()
        return []

    async def _unready(self) -> list[str]:
        """Ask the Kubernetes API whether it is whole: one whose disk is full still answers."""
        try:
            await self.client.call(Request("GET", "/readyz"), timeout=READY)
        except Forbidden:
            return []  # it serves, and keeps the rest to itself
        except ApiError as error:
            return [f"the Kubernetes API: {error.message}"]
        return []

    async def instance(self, name: str) -> Pod:
        """Return an instance as the server knows it; only a managed Pod is one."""
        try:
            pod = await self.client.get(PODS, name)
        except (NotFound, BadRequest):  # a text that cannot name a Pod names none
            raise not_found("Instance", name) from None
        if pod.metadata.labels.get(names.MANAGED) != "true":
            raise not_found("Instance", name)
        self.informers.pods.observe(pod)
        return pod

    async def workload(self, name: str) -> Dynamic:
        """Return a workload; the server is asked before it is said to be missing."""
        held = self.informers.workloads.get(self.client.namespace, name)
        if held is not None:
            return held
        try:
            found = await self.client.get(WORKLOADS, name)
        except (NotFound, BadRequest):
            raise not_found("Workload", name) from None
        self.informers.workloads.observe(found)
        return found

    def look_at_workloads(self) -> None:
        """Have every workload looked at now: what one of them lacked may be there."""
        for key in self.informers.workloads.cache:
            self.operator.workloads.queue.add(key)

    def pod_of(self, claim: Claim) -> Pod | None:
        """Return the instance of a Claim, if the informer knows it."""
        name = "" if claim.status is None else claim.status.instance_id
        return self.informers.pods.get(self.client.namespace, name) if name else None

    def claim_of(self, pod: Pod) -> Claim | None:
        """Return the Claim that has an instance, if the informer knows it."""
        ref = pod.metadata.annotations.get(names.CLAIM, "")
        name, _, uid = ref.partition("/")
        held = self.informers.claims.get(self.client.namespace, name) if name else None
        return held if held is not None and held.metadata.uid == uid else None

    async def wait_for_identity(self, pod: Pod) -> None:
        """Wait until an instance knows whose it is, which its claim does not wait for.

        Not for ever, and not each time: an instance whose agent is dead, or that no helper can
        reach, must still be looked into. Patience is counted from the claim's beginning.
        """
        claim = self.claim_of(pod)
        if claim is None:
            return
        key = Key(claim.metadata.namespace, claim.metadata.name)
        since = None if claim.status is None else claim.status.claimed_at
        passed = timedelta(0) if since is None else self.clock.now() - since
        left = min(max(IDENTITY_WAIT - passed, timedelta(0)), IDENTITY_WAIT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left.total_seconds()):
                await self.operator.notifier.wait_until(key, lambda: self._has_identity(key))

    def _has_identity(self, key: Key) -> bool:
        claim = self.informers.claims.cache.get(key)
        if claim is None or claim.status is None or claim.status.phase != ClaimPhase.ACTIVE:
            return True  # there is nothing to wait for
        told = find(claim.status.conditions, IDENTITY_DELIVERED)
        return told is not None and told.status == ConditionStatus.TRUE


TheServices = NamedDependency[Services]  # injected by the name `services`
