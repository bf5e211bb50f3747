"""One leader among several replicas, by a Lease.

Elector.run(lead):  campaign ──► lead() ──► lost: cancel it, campaign again
                                      └──► stopped: cancel it, release the Lease

Clocks of different machines differ, so no replica ever compares another's timestamps with its own
clock. A replica notes, on its own monotonic clock, when it last saw the Lease *change*; only one
that has not changed for its whole duration is up for grabs. The holder counts from before it sent
its last renewal and stops leading after `renew_within`, well before anybody else may take over.
Every write is a compare-and-swap on the resourceVersion, so of two who grab, one gets a Conflict.

Leadership saves duplicate work, nothing more: reconciling is safe anywhere. So a leader that is
frozen, and wakes up after another has taken over, does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from boilerhouse.core.clock import Clock, Random, SystemClock, new_rng, rfc3339_micro
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Lease
from boilerhouse.platform.kube.resources import LEASES
from boilerhouse.platform.kube.status import AlreadyExists, ApiError, Conflict, NotFound

log = structlog.get_logger(__name__)

RELEASE_DEADLINE = 3.0


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """In seconds: `retry` < `renew_within` < `duration`."""

    duration: int = 15  # how long a silent leader keeps the others waiting
    renew_within: float = 10.0  # how long a leader leads without a successful renewal
    retry: float = 2.0  # how often to renew, and to look whether the Lease is free

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_within < self.duration:
            raise ValueError(f"want 0 < retry < renew_within < duration: {self}")


class Elector:
    """One candidate. `identity` must differ between replicas."""

    def __init__(
        self,
        client: Client,
        name: str,
        identity: str,
        *,
        namespace: str | None = None,
        timing: LeaseTiming | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        self.name = name
        self.identity = identity
        self.holder = ""  # who leads, as far as we have seen
        self._client = client
        self._namespace = client.resolve_namespace(namespace)
        self._timing = timing or LeaseTiming()
        self._clock = clock or SystemClock()
        self._rng = rng or new_rng()
        self._held: Lease | None = None  # as we last wrote it
        self._until = 0.0
        self._seen = ""
        self._seen_at = 0.0

    @property
    def leading(self) -> bool:
        """Whether this replica leads at this very moment."""
        return self._held is not None and _now() < self._until

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Campaign, and call `lead` whenever elected; it is cancelled when the Lease is lost.

        Ends when `lead` returns or raises by itself, or when cancelled; either way the Lease is
        released, so that the next leader need not wait for it to run out.
        """
        try:
            while True:
                await self._campaign()
                log.info("leader.elected", lease=self.name, identity=self.identity)
                work = asyncio.ensure_future(lead())
                try:
                    await self._keep(work)
                    if work.done():
                        work.result()
                        return
                    log.warning("leader.lost", lease=self.name, holder=self.holder)
                finally:
                    await self._wind_down(work)
        finally:
            await self._release()

    async def _campaign(self) -> None:
        while True:
            try:
                if await self._take():
                    return
            except ApiError as error:
                log.warning("leader.campaign_failed", lease=self.name, error=str(error))
            await asyncio.sleep(self._pause())

    async def _take(self) -> bool:
        """Take the Lease if nobody has it; False if somebody does."""
        try:
            lease = await self._client.get(LEASES, self.name, namespace=self._namespace)
        except NotFound:
            return await self._create()
        self._look(lease)
        spec = lease.spec
        if self.holder and self.holder != self.identity:
            patience = spec.lease_duration_seconds or self._timing.duration
            if _now() < self._seen_at + patience:
                return False
        moved = self.holder != self.identity
        return await self._write(
            lease,
            {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self._timing.duration,
                "acquireTime": self._stamp() if moved else spec.acquire_time,
                "renewTime": self._stamp(),
                "leaseTransitions": (spec.lease_transitions or 0) + (1 if moved else 0),
            },
        )

    async def _create(self) -> bool:
        began = _now()
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.duration,
            "acquireTime": self._stamp(),
            "renewTime": self._stamp(),
            "leaseTransitions": 0,
        }
        try:
            lease = await self._client.create(
                LEASES, {"metadata": {"name": self.name}, "spec": spec}, namespace=self._namespace
            )
        except AlreadyExists:
            return False
        self._own(lease, began)
        return True

    async def _write(self, lease: Lease, spec: dict[str, Any]) -> bool:
        began = _now()
        version = lease.metadata.resource_version
        patch = {"metadata": {"resourceVersion": version}, "spec": spec}
        try:
            written = await self._client.merge_patch(
                LEASES, self.name, patch, namespace=self._namespace
            )
        except (Conflict, NotFound):
            return False
        self._own(written, began)
        return True

    def _own(self, lease: Lease, began: float) -> None:
        self._held = lease
        self._until = began + self._timing.renew_within
        self._look(lease)

    def _look(self, lease: Lease) -> None:
        self.holder = lease.spec.holder_identity or ""
        # uid too: a Lease that was deleted and made again is another one.
        seen = f"{lease.metadata.uid}/{lease.metadata.resource_version}"
        if seen != self._seen:
            self._seen, self._seen_at = seen, _now()

    async def _keep(self, work: asyncio.Future[None]) -> None:
        """Renew until the work ends or the Lease is lost."""
        while not work.done():
            await asyncio.wait({work}, timeout=self._pause())
            if not work.done() and not await self._renewed():
                self._held = None
                return

    async def _renewed(self) -> bool:
        """Renew, again and again while there is time; False when the Lease is lost."""
        while self.leading:
            try:
                async with asyncio.timeout(self._until - _now()):
                    if await self._renew():
                        return True
                    if self.holder != self.identity:
                        return False
            except (ApiError, TimeoutError) as error:
                log.warning("leader.renewal_failed", lease=self.name, error=str(error))
            await asyncio.sleep(min(self._pause() / 2, max(self._until - _now(), 0)))
        return False

    async def _renew(self) -> bool:
        assert self._held is not None
        if await self._write(self._held, {"renewTime": self._stamp()}):
            return True
        # Somebody wrote to it. Who changed only a label has not taken it from us.
        try:
            lease = await self._client.get(LEASES, self.name, namespace=self._namespace)
        except NotFound:
            self.holder = ""
            return False
        self._look(lease)
        if self.holder == self.identity:
            self._held = lease
        return False

    async def _wind_down(self, work: asyncio.Future[None]) -> None:
        """Cancel the work and wait for it, still holding the Lease while it finishes its step."""
        work.cancel()
        while not work.done():
            await asyncio.wait({work}, timeout=self._timing.retry)
            if not work.done() and self.leading:
                await self._renewed()
        if not work.cancelled():
            with suppress(Exception):  # already raised by `run`, or overtaken by the loss
                work.result()

    async def _release(self) -> None:
        lease, self._held = self._held, None
        if lease is None:
            return
        spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": self._stamp()}
        patch = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        try:
            async with asyncio.timeout(RELEASE_DEADLINE):
                await self._client.merge_patch(LEASES, self.name, patch, namespace=self._namespace)
            log.info("leader.released", lease=self.name, identity=self.identity)
        except (ApiError, TimeoutError) as error:
            # It runs out by itself.
            log.warning("leader.release_failed", lease=self.name, error=str(error))

    def _pause(self) -> float:
        return self._timing.retry * self._rng.uniform(0.8, 1.2)

    def _stamp(self) -> str:
        return rfc3339_micro(self._clock.now())


def _now() -> float:
    return asyncio.get_running_loop().time()
