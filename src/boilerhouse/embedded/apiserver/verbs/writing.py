"""One door for every write: the object and what it costs its namespace, in one commit.

verbs, deletion, collector, namespaces, scale ──► Writer ──► store.submit(object, quota usage)

A quota's `status.used` changes in the same transaction as the object that uses it, so it is exact
at every moment, after every crash, and needs no recount. Nothing here awaits: the caller has read
the head and decided on it, and the head must not move before the write is in it.
"""

from __future__ import annotations

import asyncio

from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.policy.quota import Quotas
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Remove, Store, Stored

Pending = asyncio.Future[list[Stored]]


class Writer:
    """Submits decided writes. The first of the stored results is the object itself."""

    def __init__(self, store: Store, quotas: Quotas) -> None:
        self._store = store
        self._quotas = quotas

    def create(
        self, kind: Kind, key: Key, body: Body, *also: Put, deferred: bool = False
    ) -> Pending:
        """Store a new object; raises Forbidden when a quota is exhausted."""
        body = _typed(kind, body)
        charges = self._quotas.charges(kind, key, None, body)
        return self._store.submit(Put(key, body), *also, *charges, deferred=deferred)

    def change(
        self, kind: Kind, key: Key, body: Body, old: Body, *, deferred: bool = False
    ) -> Pending:
        """Store a new version; raises Forbidden when what it adds exhausts a quota."""
        body = _typed(kind, body)
        charges = self._quotas.charges(kind, key, old, body)
        return self._store.submit(Put(key, body), *charges, deferred=deferred)

    def remove(self, kind: Kind, key: Key, body: Body) -> Pending:
        """Take the object away; `body` is how it was last."""
        charges = self._quotas.charges(kind, key, body, None)
        return self._store.submit(Remove(key, _typed(kind, body)), *charges)


def type_lead(kind: Kind) -> bytes:
    """Return what the stored bytes of an object of this kind begin with, but for its members."""
    return b'{"kind":"%b","apiVersion":"%b",' % (kind.kind.encode(), kind.api_version.encode())


def _typed(kind: Kind, body: Body) -> Body:
    """Put the type first. Lists of built-in kinds cut it off the stored bytes."""
    return {"kind": kind.kind, "apiVersion": kind.api_version, **body}
