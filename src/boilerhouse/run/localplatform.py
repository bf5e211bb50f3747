"""What this machine cannot give to instances: enforced limits, a network."""

from __future__ import annotations

from boilerhouse.embedded.kubelet.network import uplink
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped
from boilerhouse.tenancy.workloads.model import WorkloadSpec
from boilerhouse.tenancy.workloads.network import Access


class LocalPlatform:
    """`Platform` of one machine."""

    def __init__(self, sandboxes: Bubblewrapped) -> None:
        self._sandboxes = sandboxes

    def missing(self, spec: WorkloadSpec) -> list[str]:
        why = uplink.unavailable() if spec.network.access == Access.UNRESTRICTED else ""
        return [f"spec.network.access: {why}"] if why else []

    def unenforced(self) -> str:
        return self._sandboxes.limits_unenforced or ""

    def shortcomings(self) -> list[str]:
        """Say everything that is lacking here, for who starts it."""
        lacking = []
        if self.unenforced():
            lacking.append(f"limits of memory and CPU are not enforced: {self.unenforced()}")
        if uplink.unavailable():
            lacking.append(uplink.unavailable())
        return lacking
