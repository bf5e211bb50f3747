"""The life of namespaces: the ones there always are, and the end of the others.

DELETE namespace ──► Terminating ──► sweep its content ──► finalize ──► gone

Between the mark and the end nothing new can be created in it (admission), so the sweep ends. What
holds content back (a Pod's grace, a finalizer) is told in the namespace's conditions; when it lets
go, the sweep goes on. Level-triggered, and begun anew at every start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.embedded.apiserver.background.passes import Passes
from boilerhouse.embedded.apiserver.builtin.cluster import NAMESPACE_FINALIZER
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.apiserver.policy.admission import Admission
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request.decoding import decode_object
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.rendering import object_reply
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.storage.store import Change, Key, Store, Stored
from boilerhouse.embedded.apiserver.verbs.deletion import DeleteOptions
from boilerhouse.embedded.apiserver.verbs.objects import Verbs, check_version, decode, found, key_of
from boilerhouse.embedded.apiserver.verbs.removal import BATCH, Removal
from boilerhouse.platform.kube.wire import Reply, Request


class Namespaces:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        admission: Admission,
        removal: Removal,
        verbs: Verbs,
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._admission = admission
        self._removal = removal
        self._verbs = verbs
        self.passes = Passes("namespaces", self._settle)
        self._enqueue = self.passes.enqueue

    def begin(self) -> None:
        """Carry on with what was being deleted, and see that every namespace is complete."""
        for stored in self._store.scan("namespaces"):
            self._enqueue(stored.key.name)

    def see(self, change: Change) -> None:
        """Take note of a committed change."""
        resource, namespace, name = change.key
        if resource == "namespaces":
            self._enqueue(name)
        elif change.type == "DELETED" and namespace:
            lost_account = resource == "serviceaccounts" and name == "default"
            if lost_account or self._terminating(namespace):
                self._enqueue(namespace)

    async def finalize(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        """Answer `namespaces/finalize`: whoever holds the namespace lets go of it."""
        kind = target.kind
        sent = decode_object(request, kind).body
        kind.schema.prune(sent)
        stored = found(self._store.head(key_of(target)), target)
        version = sent.get("metadata", {}).get("resourceVersion")
        if version:
            check_version(kind, stored, version)
        body = decode(stored.raw)
        finalizers = sent.get("spec", {}).get("finalizers")
        body["spec"] = {"finalizers": finalizers} if finalizers else {}
        result = await self._verbs.store_change(kind, stored, body)
        return object_reply(kind, result, rendering, self._clock.now)

    def _terminating(self, namespace: str) -> bool:
        stored = self._store.head(Key("namespaces", "", namespace))
        return stored is not None and "deletionTimestamp" in stored.body["metadata"]

    async def _settle(self, name: str) -> None:
        stored = self._store.head(Key("namespaces", "", name))
        if stored is None:
            return
        if "deletionTimestamp" not in stored.body["metadata"]:
            if self._store.head(Key("serviceaccounts", name, "default")) is None:
                await self._store.submit(self._admission.default_account(name))
            return
        remaining = await self._sweep(name)
        stored = self._store.head(Key("namespaces", "", name))
        kind = self._registry.of_resource("namespaces")
        if stored is None or kind is None:
            return
        body = decode(stored.raw)
        status = body.setdefault("status", {})
        conditions = _conditions(remaining, rfc3339(self._clock.now()))
        status["conditions"] = _merged(status.get("conditions", []), conditions)
        if not remaining:
            spec = body.setdefault("spec", {})
            spec["finalizers"] = [n for n in spec.get("finalizers", ()) if n != NAMESPACE_FINALIZER]
            if not spec["finalizers"]:
                del spec["finalizers"]
        await self._verbs.store_change(kind, stored, body)

    async def _sweep(self, namespace: str) -> dict[str, list[Body]]:
        """Delete everything in it that is not on its way out; return what is still there."""
        kinds = [kind for kind in self._registry.all() if kind.namespaced]
        options = DeleteOptions(propagationPolicy="Background")
        for kind in kinds:
            there = self._store.scan_head(kind.resource, namespace)
            await self._removal.sweep(kind, self._staying(there), options)
        left: dict[str, list[Body]] = {}
        for kind in kinds:
            for number, stored in enumerate(self._store.scan_head(kind.resource, namespace)):
                left.setdefault(kind.resource, []).append(stored.body)
                if number % BATCH == 0:
                    await asyncio.sleep(0)
        return left

    def _staying(self, there: list[Stored]) -> Iterator[Key]:
        """Name those that are not being deleted, each when it is its turn."""
        for item in there:
            stored = self._store.head(item.key)  # a quota changes with what it counts
            if stored is not None and "deletionTimestamp" not in stored.body["metadata"]:
                yield item.key


def _conditions(remaining: dict[str, list[Body]], now: str) -> list[dict[str, Any]]:
    counts = [f"{name} has {len(bodies)} resource instances" for name, bodies in remaining.items()]
    held: dict[str, int] = {}
    for bodies in remaining.values():
        for body in bodies:
            for finalizer in body["metadata"].get("finalizers", ()):
                held[finalizer] = held.get(finalizer, 0) + 1
    holders = [f"{name} in {count} resource instances" for name, count in sorted(held.items())]
    return [
        {
            "type": "NamespaceContentRemaining",
            "status": "True" if counts else "False",
            "lastTransitionTime": now,
            "reason": "SomeResourcesRemain" if counts else "ContentRemoved",
            "message": f"Some resources are remaining: {', '.join(counts)}"
            if counts
            else "All content successfully removed",
        },
        {
            "type": "NamespaceFinalizersRemaining",
            "status": "True" if holders else "False",
            "lastTransitionTime": now,
            "reason": "SomeFinalizersRemain" if holders else "ContentHasNoFinalizers",
            "message": "Some content in the namespace has finalizers remaining: "
            + ", ".join(holders)
            if holders
            else "All content-preserving finalizers finished",
        },
    ]


def _merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the time of a condition that did not change: otherwise every sweep would be a write."""
    before = {condition["type"]: condition for condition in old}
    for condition in new:
        known = before.get(condition["type"])
        if known and known["status"] == condition["status"]:
            condition["lastTransitionTime"] = known["lastTransitionTime"]
    names = {condition["type"] for condition in new}
    return [condition for condition in old if condition["type"] not in names] + new
