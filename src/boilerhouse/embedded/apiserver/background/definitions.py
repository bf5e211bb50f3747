"""CustomResourceDefinitions: kinds that come, change and go while the server runs.

CRD written ──► kind_from_crd ──► Registry          (the reply waits for it: usable at once)
CRD deleted ──► its objects deleted ──► finalizer released ──► Registry forgets the kind

Installed kinds are a function of the stored CRDs: at the start all of them are installed again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import structlog

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.apiserver.background.passes import Passes
from boilerhouse.embedded.apiserver.cel.rules import RulesRefused
from boilerhouse.embedded.apiserver.crd.kind import (
    CLEANUP,
    RESOURCE,
    established,
    kind_from_crd,
    settle_names,
)
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.schemas.schema import SchemaError
from boilerhouse.embedded.apiserver.storage.store import Change, Key, Store, Stored
from boilerhouse.embedded.apiserver.verbs.deletion import DeleteOptions
from boilerhouse.embedded.apiserver.verbs.objects import Verbs, decode
from boilerhouse.embedded.apiserver.verbs.removal import Removal

log = structlog.get_logger()


class Definitions:
    def __init__(
        self, store: Store, registry: Registry, clock: Clock, removal: Removal, verbs: Verbs
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._removal = removal
        self._verbs = verbs
        self._installed: dict[str, int] = {}
        self.passes = Passes("definitions", self._clean)
        self._enqueue = self.passes.enqueue

    def begin(self) -> None:
        """Install every stored definition, and carry on with those that are being deleted."""
        self._install()
        for stored in self._store.scan(RESOURCE):
            self._enqueue(stored.key.name)

    def note(self, kind: Kind) -> None:
        """Bring the registry up to date after a request that wrote definitions."""
        if kind.resource == RESOURCE:
            self._install()

    def _install(self) -> None:
        """Make the served kinds those of the committed definitions."""
        stored = {
            item.key.name: item for item in self._store.scan(RESOURCE) if established(item.body)
        }
        for name, item in stored.items():
            if self._installed.get(name) != item.revision:
                self._installed[name] = item.revision
                try:
                    kind = kind_from_crd(item.body)
                except (SchemaError, RulesRefused) as error:
                    # Accepted by another release than this one; the rest is served all the same.
                    log.error("definition.not_served", definition=name, error=str(error))
                    self._registry.remove(name)
                except Exception as error:  # a mistake of ours must not cost the other kinds
                    log.error("definition.not_served", definition=name, exc_info=error)
                    self._registry.remove(name)
                else:
                    self._registry.install(replace(kind, since=item.revision))
        for name in self._installed.keys() - stored.keys():
            self._registry.remove(name)
            del self._installed[name]

    def see(self, change: Change) -> None:
        """Take note of a committed change."""
        resource = change.key.resource
        if resource == RESOURCE:
            self._install()
            self._enqueue(change.key.name)
        elif resource in self._installed and change.type == "DELETED" and self._dying(resource):
            self._enqueue(resource)

    def _dying(self, name: str) -> Stored | None:
        stored = self._store.head(Key(RESOURCE, "", name))
        if stored is None or "deletionTimestamp" not in stored.body["metadata"]:
            return None
        return stored

    async def _clean(self, name: str) -> None:
        """Take the objects of a dying definition away, then the definition."""
        if self._dying(name) is None:
            await self._settle_waiting()
            return
        kind = self._registry.of_resource(name)
        if kind is not None:
            staying = (
                stored.key
                for stored in self._store.scan_head(name)
                if "deletionTimestamp" not in stored.body["metadata"]
            )
            await self._removal.sweep(kind, staying, DeleteOptions())
        definition, own = self._dying(name), self._registry.of_resource(RESOURCE)
        if definition is None or own is None or self._store.scan_head(name):
            return

        def release(metadata: dict[str, Any]) -> None:
            left = [item for item in metadata.get("finalizers", ()) if item != CLEANUP]
            metadata["finalizers"] = left

        await self._removal.edit_metadata(own, definition, release)

    async def _settle_waiting(self) -> None:
        """Serve definitions that waited for a name which is free now."""
        own = self._registry.of_resource(RESOURCE)
        for stored in self._store.scan_head(RESOURCE):
            if own is None or established(stored.body):
                continue
            body = decode(stored.raw)
            others = [other.body for other in self._store.scan_head(RESOURCE)]
            settle_names(body, others, self._clock)
            await self._verbs.store_change(own, stored, body)
