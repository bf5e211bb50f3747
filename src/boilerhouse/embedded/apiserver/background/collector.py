"""Owner references: what happens to dependents when their owner goes.

every change ──► graph (owner uid ─► dependents) ──► queue ──► examine ──► delete | unlink | wait

Level-triggered: an object is examined when it comes, while it goes, when its owners are others
than before and when one of them changes, and the decision is made on the head as it is then. A
crash loses nothing: at the start everything is examined once.

    background   the owner goes at once, its dependents follow
    foreground   the owner stays until those dependents are gone that block it
    orphan       the dependents are unlinked, then the owner goes
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from boilerhouse.embedded.apiserver.background.passes import Passes
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.storage.store import Change, Key, Store, Stored
from boilerhouse.embedded.apiserver.verbs.deletion import FOREGROUND, ORPHAN, DeleteOptions
from boilerhouse.embedded.apiserver.verbs.removal import Removal

# Together, so that a thousand dependents do not cost a thousand commits.
BATCH = 256


class Collector:
    def __init__(self, store: Store, registry: Registry, removal: Removal) -> None:
        self._store = store
        self._registry = registry
        self._removal = removal
        self._dependents: dict[str, set[Key]] = defaultdict(set)
        self._owners: dict[Key, frozenset[str]] = {}
        self.passes = Passes("collector", self._examine, at_once=BATCH)
        self._enqueue = self.passes.enqueue

    def begin(self) -> None:
        """Learn everything that is stored, and look at all of it once."""
        self._dependents.clear()
        self._owners.clear()
        for kind in self._registry.all():
            for stored in self._store.scan(kind.resource):
                self._learn(stored.key, stored.body)
                self._look_at(stored.key, stored.body)

    def see(self, change: Change) -> None:
        """Take note of a committed change."""
        body, previous = change.object.body, change.previous
        if change.left is None:
            self._learn(change.key, None)
            self._enqueue(*self._dependents.get(_uid(body), ()))
            # One that waits for this dependent may go on now.
            for reference in _references(body):
                owner = self._find_owner(change.key.namespace, reference)
                if owner is not None:
                    self._enqueue(owner.key)
            return
        metadata = body["metadata"]
        if previous is not None and "deletionTimestamp" not in metadata:
            before = previous.body["metadata"].get("ownerReferences")
            if before == metadata.get("ownerReferences"):
                return
        self._learn(change.key, body)
        self._look_at(change.key, body)

    def _look_at(self, key: Key, body: Body) -> None:
        metadata = body["metadata"]
        waits = "deletionTimestamp" in metadata and _waits(metadata)
        if waits or metadata.get("ownerReferences"):
            self._enqueue(key)

    def _learn(self, key: Key, body: Body | None) -> None:
        references = _references(body) if body else ()
        if not references and key not in self._owners:
            return
        owners = frozenset(ref["uid"] for ref in references)
        before = self._owners.get(key, frozenset())
        for uid in before - owners:
            self._dependents[uid].discard(key)
            if not self._dependents[uid]:
                del self._dependents[uid]
        for uid in owners - before:
            self._dependents[uid].add(key)
        if owners:
            self._owners[key] = owners
        else:
            self._owners.pop(key, None)

    async def _examine(self, key: Key) -> None:
        stored, kind = self._store.head(key), self._registry.of_resource(key.resource)
        if stored is None or kind is None:
            return
        metadata = stored.body["metadata"]
        if "deletionTimestamp" in metadata:
            await self._as_owner(kind, stored, metadata)
        elif metadata.get("ownerReferences"):
            await self._as_dependent(kind, stored, metadata)

    async def _as_owner(self, kind: Kind, stored: Stored, metadata: dict[str, Any]) -> None:
        """Let a dying owner go once its dependents are unlinked (orphan) or gone (foreground)."""
        finalizers = metadata.get("finalizers", ())
        dependents = [self._store.head(key) for key in self._dependents.get(_uid(stored.body), ())]
        living = [dependent for dependent in dependents if dependent is not None]
        if ORPHAN in finalizers:
            for dependent in living:
                await self._unlink(dependent, {_uid(stored.body)})
            await self._release(kind, stored, ORPHAN)
        elif FOREGROUND in finalizers:
            if not any(_blocks(dependent, _uid(stored.body)) for dependent in living):
                await self._release(kind, stored, FOREGROUND)
            else:
                self._enqueue(*[dependent.key for dependent in living])

    async def _as_dependent(self, kind: Kind, stored: Stored, metadata: dict[str, Any]) -> None:
        solid: list[Body] = []
        absent: list[Body] = []
        waiting: list[Body] = []
        for reference in metadata["ownerReferences"]:
            fate = self._fate(stored.key, reference)
            (solid if fate == "solid" else absent if fate == "absent" else waiting).append(
                reference
            )
        if not absent and not waiting:
            return
        if solid:
            await self._unlink(stored, {ref["uid"] for ref in absent + waiting})
            return
        policy = _own_policy(metadata)
        if waiting and self._dependents.get(_uid(stored.body)):
            policy = "Foreground"  # the owner waits for the whole tree below it
        await self._removal.delete(kind, stored, DeleteOptions(propagationPolicy=policy))

    def _fate(self, key: Key, reference: Body) -> str:
        """Tell whether an owner is there, is not, or is waiting for its dependents to go."""
        kind = self._registry.of_type(reference["apiVersion"], reference["kind"])
        if kind is None or (kind.namespaced and not key.namespace):
            # What cannot be looked up is not proof of absence: leave the dependent alone.
            return "solid"
        owner = self._find_owner(key.namespace, reference)
        if owner is None:
            return "absent"
        metadata = owner.body["metadata"]
        dying = "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())
        return "waiting" if dying else "solid"

    def _find_owner(self, namespace: str, reference: Body) -> Stored | None:
        kind = self._registry.of_type(reference["apiVersion"], reference["kind"])
        if kind is None:
            return None
        where = namespace if kind.namespaced else ""
        owner = self._store.head(Key(kind.resource, where, reference["name"]))
        # An object of the same name born later is another object.
        return owner if owner is not None and _uid(owner.body) == reference["uid"] else None

    async def _unlink(self, dependent: Stored, uids: set[str]) -> None:
        kind = self._registry.of_resource(dependent.key.resource)
        head = self._store.head(dependent.key)
        if kind is None or head is None or _uid(head.body) != _uid(dependent.body):
            return

        def edit(metadata: dict[str, Any]) -> None:
            left = [ref for ref in metadata.get("ownerReferences", ()) if ref["uid"] not in uids]
            metadata["ownerReferences"] = left

        await self._removal.edit_metadata(kind, head, edit)

    async def _release(self, kind: Kind, stored: Stored, finalizer: str) -> None:
        head = self._store.head(stored.key)
        if head is None or _uid(head.body) != _uid(stored.body):
            return

        def edit(metadata: dict[str, Any]) -> None:
            left = [name for name in metadata.get("finalizers", ()) if name != finalizer]
            metadata["finalizers"] = left

        await self._removal.edit_metadata(kind, head, edit)


def _uid(body: Body) -> str:
    uid: str = body["metadata"].get("uid", "")
    return uid


def _references(body: Body) -> list[Body]:
    references: list[Body] = body["metadata"].get("ownerReferences", [])
    return references


def _waits(metadata: dict[str, Any]) -> bool:
    finalizers = metadata.get("finalizers", ())
    return ORPHAN in finalizers or FOREGROUND in finalizers


def _blocks(dependent: Stored, uid: str) -> bool:
    references = _references(dependent.body)
    return any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in references)


def _own_policy(metadata: dict[str, Any]) -> str:
    """Return how an object's own finalizers say it wants to go."""
    finalizers = metadata.get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
