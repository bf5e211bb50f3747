"""Objects from before their definition changed, shown as the definition now says.

Stored ──► (older than the kind's schema?) ──► prune, default ──► what readers see

A CRD may gain a default or lose a field while objects are stored. They are not rewritten; readers
see them through the schema of today, at the version they have, as on a real server. Nearly every
object is younger than its schema and passes untouched; the others are converted once.
"""

from __future__ import annotations

import msgspec

from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.storage.store import Key, Stored


class Presenter:
    def __init__(self) -> None:
        # resource -> (the schema's age, converted versions); forgotten when the schema changes.
        self._converted: dict[str, tuple[int, dict[Key, Stored]]] = {}

    def shown(self, kind: Kind, stored: Stored) -> Stored:
        """Return the object as readers are to see it."""
        if stored.revision >= kind.since:
            return stored
        since, converted = self._converted.get(kind.resource, (0, {}))
        if since != kind.since:
            converted = {}
            self._converted[kind.resource] = (kind.since, converted)
        known = converted.get(stored.key)
        if known is None or known.revision != stored.revision:
            known = converted[stored.key] = _convert(kind, stored)
        return known

    def all_shown(self, kind: Kind, items: list[Stored]) -> list[Stored]:
        since = kind.since
        if since and any(item.revision < since for item in items):
            return [self.shown(kind, item) for item in items]
        return items


def _convert(kind: Kind, stored: Stored) -> Stored:
    body = msgspec.json.decode(stored.raw)
    kind.schema.prune(body)
    kind.schema.default(body)
    if body == stored.body:
        return stored
    return Stored(stored.key, stored.revision, body, msgspec.json.encode(body))
