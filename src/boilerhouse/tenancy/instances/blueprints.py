"""What claims and pools know of a workload: whether instances can be made of it, and which.

workload informer (or a live GET) ─► Blueprints.look ─► Blueprint
"""

from __future__ import annotations

import msgspec

from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.projections import Views
from boilerhouse.tenancy.instances.build import template_hash
from boilerhouse.tenancy.instances.seen import Blueprint
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadSpec
from boilerhouse.tenancy.workloads.objects import WORKLOADS

REMEMBERED = 1024


class Blueprints:
    """The workloads of one namespace, with their template hashes."""

    def __init__(self, client: Client, workloads: Informer[Dynamic], settings: Settings) -> None:
        self._client = client
        self._workloads = workloads
        self._writer = Writer(client, WORKLOADS, workloads)
        self._settings = settings
        self._views = Views(self._blueprint, workloads.cache)
        self._known: dict[tuple[str, int], tuple[WorkloadSpec, str]] = {}

    async def look(self, name: str) -> Blueprint | None:
        """Return the workload; None only after the server said that there is none."""
        found = self.cached(name)
        if found is None:
            live = await self._writer.refresh(name)
            found = None if live is None else self._views.of(live)
        return found

    def cached(self, name: str) -> Blueprint | None:
        """Return the workload if the informer knows it; None proves nothing."""
        held = self._workloads.get(self._client.namespace, name)
        return None if held is None else self._views.of(held)

    def _blueprint(self, workload: Dynamic) -> Blueprint:
        meta, status = workload.metadata, workload.status
        phase = WorkloadPhase(status.get("phase", WorkloadPhase.CREATING))
        if status.get("observedGeneration", 0) != meta.generation:
            # Ready, or in Error, is what an older spec was; of this one nobody knows yet.
            phase = WorkloadPhase.CREATING
        deleting = meta.deletion_timestamp is not None
        if phase != WorkloadPhase.READY:
            spec = self._readable(workload)
            return Blueprint(meta.name, phase, status.get("detail", ""), deleting, spec=spec)
        spec, template = self._template(workload)
        return Blueprint(meta.name, phase, "", deleting, template, spec)

    def _readable(self, workload: Dynamic) -> WorkloadSpec | None:
        """Return the spec of a workload that is not Ready: what runs already goes by it."""
        try:
            return self._template(workload)[0]
        except msgspec.ValidationError:
            return None

    def _template(self, workload: Dynamic) -> tuple[WorkloadSpec, str]:
        key = (workload.metadata.uid, workload.metadata.generation)
        known = self._known.get(key)
        if known is None:
            spec = msgspec.convert(workload.spec, WorkloadSpec)
            known = spec, template_hash(spec, self._settings)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known
