"""Who an instance is, told to it while it runs.

operator ─► Identities.deliver ─► helper ─► agent ─► /run/boilerhouse/{tenant,workload,claim,…}

A warm instance is nobody's until a claim takes it, so its identity cannot be in its environment:
it arrives as files. The way there is a port, since the domains do not know the helper.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Identity(Struct, frozen=True):
    """What becomes the files; token and API address are made of it by whoever delivers."""

    tenant: str
    workload: str
    claim: str
    claim_uid: str
    scopes: tuple[str, ...]


class Identities(Protocol):
    """The way to an instance's agent."""

    async def deliver(self, pod: str, uid: str, identity: Identity) -> None:
        """Write the identity into the instance, whole or not at all; again does no harm.

        Raises `Retry` if the agent cannot be reached now.
        """
        ...
