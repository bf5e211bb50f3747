"""Delivers identities: what the operator knows of a claim, as the files an instance gets.

Identity ─► token minted, API address added ─► HelperClient.tell ─► agent
"""

from __future__ import annotations

from boilerhouse.core import claimtoken
from boilerhouse.core.errors import Terminal
from boilerhouse.node.agent.protocol import IdentityFiles
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.snapshots.client import HelperClient


class HelperIdentities:
    """`Identities` by way of the helper. `key` seals the claims' tokens."""

    def __init__(self, helper: HelperClient, key: bytes, api_url: str) -> None:
        self._helper = helper
        self._key = key
        self._api_url = api_url

    async def deliver(self, pod: str, uid: str, identity: Identity) -> None:
        """Write the identity into the instance, whole or not at all; again does no harm.

        `Retry` if it cannot be reached now; `Terminal` if it is somebody else's.
        """
        files = IdentityFiles(
            tenant=identity.tenant,
            workload=identity.workload,
            claim=identity.claim,
            token=claimtoken.mint(self._key, identity.claim_uid),
            api_url=self._api_url,
        )
        try:
            await self._helper.tell(pod, uid, files)
        except Refused as refused:
            raise Terminal(f"instance {pod} did not take its identity: {refused}") from refused
