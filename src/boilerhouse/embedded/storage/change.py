"""The vocabulary of the object store: keys, stored objects, writes and the changes they make.

Put | Remove ──► Store ──► Change (what watchers see) ──► Stored (what readers see)

Apart from the store so that the index, the history and the journal can speak of these without
knowing each other. Everything here is immutable to its users and lives on the event loop's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Key(NamedTuple):
    """Where an object lives: `pods` or `plural.group`, and "" for no namespace."""

    resource: str
    namespace: str
    name: str


class Put(NamedTuple):
    """Create the object or replace it. The store stamps `metadata.resourceVersion`."""

    key: Key
    body: dict[str, Any]


class Remove(NamedTuple):
    """Delete the object; `body` is its last state, shown in the DELETED event."""

    key: Key
    body: dict[str, Any]


class Stored:
    """One version of one object. Nobody changes it, nor the `body` it hands out.

    `raw` is the JSON of `body`. What came from disk, or has been superseded a while ago, is held
    as `raw` alone and decoded when someone asks: history would otherwise cost ten times as much.
    """

    __slots__ = ("_body", "key", "raw", "revision")

    def __init__(self, key: Key, revision: int, body: dict[str, Any] | None, raw: bytes) -> None:
        self.key: Final = key
        self.revision: Final = revision
        self.raw: Final = raw
        self._body = body

    @classmethod
    def stamp(cls, key: Key, revision: int, body: dict[str, Any]) -> Stored:
        """Make the version `revision` of an object; the caller's dicts are left as they are."""
        metadata = {**body.get("metadata", {}), "resourceVersion": str(revision)}
        stamped = {**body, "metadata": metadata}
        return cls(key, revision, stamped, _encode(stamped))

    @property
    def body(self) -> dict[str, Any]:
        if self._body is None:
            self._body = _decode(self.raw)
        return self._body

    def forget(self) -> None:
        """Keep only the bytes."""
        self._body = None

    def __repr__(self) -> str:
        return f"Stored({'/'.join(self.key)}@{self.revision})"


@dataclass(frozen=True, slots=True)
class Change:
    """One committed write. `previous` is the version it replaced: None only when ADDED."""

    revision: int
    type: EventType
    key: Key
    object: Stored
    previous: Stored | None
    _lines: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def object_as(self, type: EventType) -> Stored:  # noqa: A002 - the wire's name
        """Return what a watcher is shown to whom this change is `type`.

        A watcher with a selector may see a MODIFIED object arrive (ADDED) or leave (DELETED). One
        that leaves is shown as it was while it matched, at the revision of this change.
        """
        if type == "DELETED" and self.type != "DELETED" and self.previous is not None:
            return Stored.stamp(self.key, self.revision, self.previous.body)
        return self.object

    def event_line(self, type: EventType | None = None) -> bytes:  # noqa: A002 - as above
        """Return the watch line for this change, encoded once however many watchers ask."""
        shown = type or self.type
        line = self._lines.get(shown)
        if line is None:
            raw = self.object_as(shown).raw
            line = b'{"type":"%b","object":%b}\n' % (shown.encode(), raw)
            self._lines[shown] = line
        return line

    def forget(self) -> None:
        """Keep only the bytes of versions that nobody reads any more, and no lines."""
        self._lines.clear()
        if self.previous is not None:
            self.previous.forget()
        if self.type == "DELETED":
            self.object.forget()
