"""Platform: what the machine or cluster that instances run on cannot give them. A port.

workload ─► Platform.missing(spec) ─► what keeps instances of it from running here
        └─► Platform.unenforced()  ─► which promise of the spec is not kept here
"""

from __future__ import annotations

from typing import Protocol

from boilerhouse.tenancy.workloads.model import WorkloadSpec


class Platform(Protocol):
    def missing(self, spec: WorkloadSpec) -> list[str]:
        """Return what the spec asks for and cannot have here, one sentence each."""
        ...

    def unenforced(self) -> str:
        """Return why limits of memory and CPU are not enforced here; empty if they are."""
        ...


class TrustedPlatform:
    """A cluster: its nodes know what they have, and what they lack shows on the Pods."""

    def missing(self, spec: WorkloadSpec) -> list[str]:
        return []

    def unenforced(self) -> str:
        return ""
