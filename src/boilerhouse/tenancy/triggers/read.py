"""Gathers what a decision about a trigger may look at."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from boilerhouse.core.clock import Clock
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.triggers.decide import Seen
from boilerhouse.tenancy.triggers.model import TriggerStatus


@dataclass(frozen=True, slots=True)
class Reader:
    """Where a trigger's Seen comes from."""

    triggers: Informer[Dynamic]
    clock: Clock

    async def read(self, key: Key) -> Seen | None:
        """Return what there is to see; None if the trigger is gone."""
        held = self.triggers.cache.get(key)
        if held is None:
            return None
        meta = held.metadata
        return Seen(
            now=self.clock.now(),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            generation=meta.generation,
            status=msgspec.convert(held.status, TriggerStatus),
        )
