"""Gathers what a decision about a workload may look at.

workload informer ─┐
Images, Secrets ───┼─► Seen
claims (a port) ───┘
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from boilerhouse.core.clock import Clock
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.resources import SECRETS, Key
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.tenancy.workloads import checks
from boilerhouse.tenancy.workloads.images import Images
from boilerhouse.tenancy.workloads.model import WorkloadSpec, WorkloadStatus
from boilerhouse.tenancy.workloads.objects import Workload
from boilerhouse.tenancy.workloads.platform import Platform
from boilerhouse.tenancy.workloads.seen import Seen, WorkloadSeen


def workload_seen(workload: Workload) -> WorkloadSeen:
    """Make of a Workload what decisions may know of it."""
    meta = workload.metadata
    return WorkloadSeen(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        status=msgspec.convert(workload.status, WorkloadStatus),
        finalizers=tuple(meta.finalizers),
        deleting=meta.deletion_timestamp is not None,
    )


@dataclass(frozen=True, slots=True)
class Reader:
    """`claims` lists, live, the names of the claims that keep a workload from going."""

    client: Client
    workloads: Informer[Workload]
    images: Images
    claims: Callable[[str], Awaitable[tuple[str, ...]]]
    clock: Clock
    platform: Platform

    async def read(self, key: Key) -> Seen | None:
        """Return everything there is to see; None if the workload is gone."""
        held = self.workloads.cache.get(key)
        if held is None:
            return None  # nothing hangs on it: its event comes when there is one
        workload = workload_seen(held)
        if workload.deleting:
            return Seen(self.clock.now(), workload, claims=await self.claims(key.name))
        faults, spec = tuple(checks.faults(held.spec)), checks.readable(held.spec)
        missing = () if spec is None else tuple(await self._missing(spec))
        unenforced = self.platform.unenforced()
        return Seen(self.clock.now(), workload, faults, missing, unenforced=unenforced)

    async def _missing(self, spec: WorkloadSpec) -> list[str]:
        found = []
        if spec.image.ref is not None:
            why = await self.images.missing(spec.image.ref)
            if why:
                found.append(f"spec.image.ref: {why}")
        found += self.platform.missing(spec)
        for name, key in checks.secrets(spec):
            try:
                secret: Any = await self.client.get(SECRETS, name)
            except NotFound:
                found.append(f"Secret {name} does not exist")
                continue
            if key not in secret.data:
                found.append(f"Secret {name} has no entry {key}")
        return found
