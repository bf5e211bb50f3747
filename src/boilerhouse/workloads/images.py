"""Whether an image can be had: the port through which workloads ask.

workload ─► Images.missing(reference) ─► "" or why not

On one machine the local store is asked. On a cluster each node pulls for itself and only it knows,
so there the reference is trusted and failures show on the Pods.
"""

from __future__ import annotations

from typing import Protocol


class Images(Protocol):
    async def missing(self, reference: str) -> str:
        """Return why the image cannot be had, as a sentence; empty if it can."""
        ...


class TrustedImages:
    """Of a cluster: every reference counts as good, except the one that only one machine has."""

    async def missing(self, reference: str) -> str:
        if reference == "host":
            return "image host is the machine's own system, which a cluster does not have"
        return ""
