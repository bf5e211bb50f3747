"""The delete verbs, and the one way in which the server itself takes objects away.

DELETE ──► preconditions ──► deletion.decide ──► Writer ──► (commit) ──► Status or the object
collector, namespaces, definitions, eviction ──► delete() ─┘

`delete` and `edit_metadata` decide and submit before they return; only the commit is awaited. So a
sweep over thousands of objects reads each head and writes it in the same breath, and a commit takes
a batch of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.refusals import forbidden, not_allowed
from boilerhouse.embedded.apiserver.request.rendering import object_reply, value_reply
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.storage.store import Key, Store, Stored
from boilerhouse.embedded.apiserver.verbs import deletion, preparing
from boilerhouse.embedded.apiserver.verbs.deletion import DeleteOptions, Gone, Unchanged
from boilerhouse.embedded.apiserver.verbs.listing import Lists, Page
from boilerhouse.embedded.apiserver.verbs.objects import decode, found, key_of, unsaved
from boilerhouse.embedded.apiserver.verbs.writing import Writer
from boilerhouse.platform.kube.wire import Reply, Request

BATCH = 16  # objects in one turn of the event loop, about a millisecond


class Removal:
    def __init__(
        self, store: Store, clock: Clock, writer: Writer, lists: Lists, kept: Collection[str]
    ) -> None:
        """`kept`: the namespaces that may not be deleted."""
        self._store = store
        self._clock = clock
        self._writer = writer
        self._lists = lists
        self._kept = kept

    async def one(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        """Answer the delete of one object."""
        kind = target.kind
        options = deletion.read_options(request)
        stored = found(self._store.head(key_of(target)), target)
        if kind.resource == "namespaces" and target.name in self._kept:
            raise forbidden(kind, target.name, "this namespace may not be deleted")
        deletion.check_preconditions(kind, stored, options)
        if options.dryRun:
            gone, shown = self._foreseen(kind, stored, options)
        else:
            gone, shown = await self.delete(kind, stored, options)
        if gone and kind.resource not in deletion.RETURNED:
            return value_reply(_success(kind, shown.body), rendering)
        return object_reply(kind, shown, rendering, self._clock.now)

    async def many(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        """Answer a deletecollection: everything selected, each on the terms of its own state."""
        kind = target.kind
        if kind.resource == "namespaces":
            raise not_allowed()
        options = deletion.read_options(request)
        page = await self._lists.page(target, request)
        if not options.dryRun:
            await self.sweep(kind, (item.key for item in page.items), options)
        shown = Page(page.items, self._store.revision)
        return await self._lists.reply(kind, shown, request, rendering)

    async def sweep(self, kind: Kind, keys: Iterable[Key], options: DeleteOptions) -> None:
        """Delete many objects, a batch at a time; those that are gone by then are left out.

        A batch waits for the disk before the next is begun. So however many they are, others have
        the event loop in between, and the store is never asked for more than it takes.
        """
        pending: list[asyncio.Future[tuple[bool, Stored]]] = []
        try:
            for key in keys:
                stored = self._store.head(key)
                if stored is None:
                    continue
                deletion.check_preconditions(kind, stored, options)
                pending.append(self.delete(kind, stored, options))
                if len(pending) == BATCH:
                    batch, pending = pending, []
                    await asyncio.gather(*batch)
        finally:
            await asyncio.gather(*pending)

    def delete(
        self, kind: Kind, stored: Stored, options: DeleteOptions
    ) -> asyncio.Future[tuple[bool, Stored]]:
        """Delete an object whose head `stored` is. The result says whether it is gone, and how it
        was last or is now."""
        outcome = deletion.decide(kind, stored.body, options, self._clock.now())
        if isinstance(outcome, Gone):
            pending = self._writer.remove(kind, stored.key, outcome.body)
        elif isinstance(outcome, Unchanged):
            pending = self._settled(stored)
        else:
            pending = self._writer.change(kind, stored.key, outcome.body, stored.body)
        return asyncio.ensure_future(_first(pending, gone=isinstance(outcome, Gone)))

    def edit_metadata(
        self, kind: Kind, stored: Stored, edit: Callable[[dict[str, Any]], None]
    ) -> asyncio.Future[list[Stored]]:
        """Change owner references or finalizers of the head; the object goes if nothing holds it
        any more."""
        body = decode(stored.raw)
        metadata = body["metadata"]
        edit(metadata)
        for name in ("ownerReferences", "finalizers"):
            if name in metadata and not metadata[name]:
                del metadata[name]
        if preparing.same(body, stored.body):
            return self._settled(stored)
        if deletion.finished(kind, body):
            return self._writer.remove(kind, stored.key, body)
        return self._writer.change(kind, stored.key, body, stored.body)

    def _settled(self, stored: Stored) -> asyncio.Future[list[Stored]]:
        """Wait until what is there is on disk, and return it."""

        async def wait() -> list[Stored]:
            if self._store.get(stored.key) is not stored:
                await self._store.flush()
            return [stored]

        return asyncio.ensure_future(wait())

    def _foreseen(self, kind: Kind, stored: Stored, options: DeleteOptions) -> tuple[bool, Stored]:
        outcome = deletion.decide(kind, stored.body, options, self._clock.now())
        if isinstance(outcome, Unchanged):
            return False, stored
        return isinstance(outcome, Gone), unsaved(stored.key, outcome.body)


async def _first(pending: asyncio.Future[list[Stored]], *, gone: bool) -> tuple[bool, Stored]:
    return gone, (await pending)[0]


def _success(kind: Kind, body: Body) -> Body:
    metadata = body["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural}
    details["uid"] = metadata.get("uid", "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
