"""Pods of ours written to the API: made with their agent's Secret, deleted by what was seen.

decided in claims, pools ─► Instances ─► API ─► Pod informer (own writes are seen at once)
"""

from __future__ import annotations

import contextlib
from typing import Any

from boilerhouse.core.clock import token
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.projections import Views
from boilerhouse.platform.kube.resources import PODS, SECRETS
from boilerhouse.platform.kube.status import AlreadyExists
from boilerhouse.tenancy.instances import build
from boilerhouse.tenancy.instances.pods import instance
from boilerhouse.tenancy.instances.seen import InstanceSeen


class Instances:
    """The instances of one namespace: reads from the informer, writes through to it."""

    def __init__(self, client: Client, pods: Informer[Pod]) -> None:
        self._client = client
        self.pods = pods
        self._writer = Writer(client, PODS, pods)
        self.view = Views(instance, pods.cache).of  # what decisions may know of a Pod

    async def look(self, name: str, uid: str = "") -> InstanceSeen | None:
        """Return the Pod of this name (and UID); None only after the server said so."""
        cached = self.pods.get(self._client.namespace, name)
        if cached is None or (uid and cached.metadata.uid != uid):
            return await self.look_live(name)
        return self.view(cached)

    async def look_live(self, name: str) -> InstanceSeen | None:
        """Ask the server, and let the informer know."""
        found = await self._writer.refresh(name)
        return None if found is None else self.view(found)

    async def create(self, body: dict[str, Any]) -> None:
        """Make an instance, its Secret first. One of that name that is there already stays."""
        name = body["metadata"]["name"]
        # One of an earlier try will do: agent and helper both read it from there.
        with contextlib.suppress(AlreadyExists):
            secret = build.agent_secret(name, token())
            await self._client.create(SECRETS, secret, deferred=True)  # of the Pod, which is not
        try:
            self.pods.observe(await self._client.create(PODS, body))
        except AlreadyExists:
            await self.look_live(name)  # whose it is, the next pass decides

    async def delete(self, seen: InstanceSeen, *, grace: int | None = None) -> bool:
        """Delete the Pod if it is still as it was seen; say whether it was."""
        return await self._writer.delete(seen, grace=grace)

    async def patch(
        self, seen: InstanceSeen, metadata: dict[str, Any], *, deferred: bool = False
    ) -> bool:
        """Merge into the Pod's metadata if it is still as it was seen; say whether it was.

        For `deferred` see `Request`.
        """
        return await self._writer.patch(seen, {"metadata": metadata}, deferred=deferred) is not None
