"""Compare-and-swap: writes to objects as they were seen, and the informer that learns of them.

object as seen ─► Writer.patch, delete ─┬─► written ─► the informer has it at once
                                        └─► changed or gone meanwhile ─► asked for, and seen anew

A write that comes too late is not an error: whoever decided on it decides again, on what is there.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from boilerhouse.core.difference import AsSeen, bound
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.platform.kube.status import Conflict, NotFound

T = TypeVar("T", bound=Object)


class Writer(Generic[T]):
    """Writes to the objects of one resource, in the client's namespace."""

    def __init__(self, client: Client, resource: Resource[T], informer: Informer[T]) -> None:
        self.informer = informer
        self._client = client
        self._resource = resource

    async def patch(
        self, seen: AsSeen, patch: dict[str, Any], *, subresource: str = "", deferred: bool = False
    ) -> T | None:
        """Merge into the object if it is still as it was seen; None if it is not.

        For `deferred` see `Request`.
        """
        try:
            written = await self._client.merge_patch(
                self._resource,
                seen.name,
                bound(seen, patch),
                subresource=subresource,
                deferred=deferred,
            )
        except (Conflict, NotFound):
            await self.refresh(seen.name)
            return None
        self.informer.observe(written)
        return written

    async def delete(self, seen: AsSeen, *, grace: int | None = None) -> bool:
        """Delete the object if it is still as it was seen; say whether it was, or is gone."""
        try:
            left = await self._client.delete(
                self._resource, seen.name, uid=seen.uid, resource_version=seen.version, grace=grace
            )
        except NotFound:
            left = None
        except Conflict:
            await self.refresh(seen.name)
            return False
        held = self._cached(seen.name)
        if left is not None:
            self.informer.observe(left)
        elif held is not None and held.metadata.uid == seen.uid:
            self.informer.forget(held)
        return True

    async def refresh(self, name: str) -> T | None:
        """Ask the server, and let the informer know; None if there is none."""
        before = self._cached(name)  # one that is made while we ask is not the one that is gone
        found = await self._client.find(self._resource, name)
        if found is not None:
            self.informer.observe(found)
        elif before is not None:
            self.informer.forget(before)
        return found

    def _cached(self, name: str) -> T | None:
        return self.informer.get(self._client.namespace, name)
