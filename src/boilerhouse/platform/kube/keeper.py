"""Keeps objects of ours exactly so: whoever changes or deletes one gets it back.

news of them, and a look now and then ─► read (live) ─► decide (core/upkeep.py) ─► apply

A cluster that does not let us write them says so in the log of each try.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Collection
from datetime import timedelta

import structlog

from boilerhouse.core import upkeep
from boilerhouse.core.upkeep import Body, Create, Delete, Plan, Replace, Seen, There
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.kube.status import AlreadyExists, Conflict, NotFound

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(minutes=5)  # somebody may take our label off, which no event tells
SOON = timedelta(seconds=1)  # after another process was faster


class Keeper:
    """The objects of these `names`, and no other.

    `wanted` gives each as it should be, or None if it should not be there. Of an object that is
    there its spec must be the `same` as that of the one wanted. With `moving`, what is wanted
    changes by itself; without, an object that is not so was changed by somebody else.
    """

    def __init__(
        self,
        noun: str,
        client: Client,
        resource: Resource[Dynamic],
        names: Collection[str],
        wanted: Callable[[str], Body | None],
        *,
        same: Callable[[Body, Body], bool] = operator.eq,
        moving: bool = False,
        again: timedelta = LOOK_AGAIN,
        soon: timedelta = SOON,
    ) -> None:
        self._noun = noun
        self._client = client
        self._resource = resource
        self._wanted = wanted
        self._same = same
        self._moving = moving
        self._again = again
        self._soon = soon
        self.kept = [Key(client.namespace, name) for name in names]

    async def read(self, key: Key) -> Seen | None:
        """Look at one object, live; None if it is none of ours."""
        if key not in self.kept:
            return None
        wanted = self._wanted(key.name)
        found = await self._client.find(self._resource, key.name)
        if found is None:
            return Seen(wanted, None)
        meta = found.metadata
        return Seen(wanted, There(meta.uid, meta.resource_version, found.spec))

    def decide(self, seen: Seen) -> Plan:
        """Say what has to be done about one object. Pure."""
        return upkeep.decide(seen, self._same)

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta:
        """Make it so; what another process did meanwhile is looked at again."""
        try:
            await self._write(key.name, plan)
        except (AlreadyExists, Conflict, NotFound):
            return self._soon
        return self._again

    async def _write(self, name: str, plan: Plan) -> None:
        what = {self._noun: name}
        match plan:
            case Create(body):
                log.info(f"{self._noun}.created", **what, spec=body["spec"])
                await self._client.create(self._resource, body)
            case Replace(uid, version, body):
                if self._moving:
                    log.info(f"{self._noun}.written", **what, spec=body["spec"])
                else:
                    log.warning(f"{self._noun}.restored", **what)
                meta = {**body["metadata"], "uid": uid, "resourceVersion": version}
                await self._client.replace(self._resource, {**body, "metadata": meta})
            case Delete(uid, version):
                log.info(f"{self._noun}.removed", **what)
                with contextlib.suppress(NotFound):
                    await self._client.delete(
                        self._resource, name, uid=uid, resource_version=version
                    )
