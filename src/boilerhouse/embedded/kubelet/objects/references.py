"""What a Pod refers to by name: the content of Secrets and ConfigMaps, read live.

env, volumes ─► References ─► API ─► bytes by key | Missing, with the words of a real kubelet
"""

from __future__ import annotations

from typing import Literal

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import CONFIG_MAPS, SECRETS
from boilerhouse.platform.kube.status import NotFound

Source = Literal["secret", "configmap"]


class Missing(Exception):
    """Something that a Pod refers to is not there (yet); the message names it."""


class References:
    """The Secrets and ConfigMaps of one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    async def content(self, source: Source, name: str, *, optional: bool) -> dict[str, bytes]:
        """Return the keys and their values; nothing for an optional one that is not there."""
        try:
            if source == "secret":
                return dict((await self._client.get(SECRETS, name, namespace=self.namespace)).data)
            found = await self._client.get(CONFIG_MAPS, name, namespace=self.namespace)
        except NotFound:
            if optional:
                return {}
            raise Missing(f'{source} "{name}" not found') from None
        return {key: value.encode() for key, value in found.data.items()} | found.binary_data

    async def value(self, source: Source, name: str, key: str, *, optional: bool) -> bytes | None:
        """Return one value; None for an optional one that is not there."""
        content = await self.content(source, name, optional=optional)
        if key in content:
            return content[key]
        if optional:
            return None
        kind = "Secret" if source == "secret" else "ConfigMap"
        raise Missing(f"couldn't find key {key} in {kind} {self.namespace}/{name}")
