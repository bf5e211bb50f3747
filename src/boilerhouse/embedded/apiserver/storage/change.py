"""The vocabulary of the object store: keys, stored objects, writes and the changes they make.

Put | Remove ──► Store ──► Change (what watchers see) ──► Stored (what readers see)

Apart from the store so that the index, the history and the journal can speak of these without
knowing each other. Everything here is immutable to its users and lives on the event loop's thread.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Key(NamedTuple):
    """Where an object lives: `pods` or `plural.group`, and "" for no namespace."""

    resource: str
    namespace: str
    name: str


class Put(msgspec.Struct, frozen=True):
    """Create the object or replace it. The store stamps `metadata.resourceVersion`."""

    key: Key
    body: dict[str, Any]


class Remove(msgspec.Struct, frozen=True):
    """Delete the object; `body` is its last state, shown in the DELETED event."""

    key: Key
    body: dict[str, Any]


class Stored(msgspec.Struct, eq=False):
    """One version of one object. Nobody changes it, nor the `body` it hands out.

    `raw` is the JSON of `body`. What came from disk, or has been superseded a while ago, is held
    as `raw` alone and decoded when someone asks: history would otherwise cost ten times as much.
    """

    key: Key
    revision: int
    _body: dict[str, Any] | None
    raw: bytes
    _keep: bool = True

    @classmethod
    def stamp(cls, key: Key, revision: int, body: dict[str, Any]) -> Stored:
        """Make the version `revision` of an object; the caller's dicts are left as they are."""
        metadata = {**body.get("metadata", {}), "resourceVersion": str(revision)}
        stamped = {**body, "metadata": metadata}
        return cls(key, revision, stamped, _encode(stamped))

    @property
    def body(self) -> dict[str, Any]:
        body = self._body
        if body is None:
            body = _decode(self.raw)
            if self._keep:
                self._body = body
        return body

    def forget(self) -> None:
        """Keep only the bytes from now on, also when someone asks for more."""
        self._body = None
        self._keep = False

    def __repr__(self) -> str:
        return f"Stored({'/'.join(self.key)}@{self.revision})"


class Change(msgspec.Struct, eq=False):
    """One committed write. `previous` is the version it replaced: None only when ADDED.

    `left` is what there is of the object now: nothing when DELETED.
    """

    revision: int
    type: EventType
    key: Key
    object: Stored
    previous: Stored | None
    left: Stored | None
    size: int  # of the object's JSON
    past_bytes: int  # what the JSON of `past` takes
    weight: int  # about what it keeps while it is fresh: lines, and bodies ready to be read
    _lines: dict[str, bytes] | None = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, stored: Stored, previous: Stored | None, *, deleted: bool) -> Change:
        """Say what a write did: `stored` is the object as it is now, or was last if `deleted`."""
        size = len(stored.raw)
        past = 0 if previous is None else len(previous.raw)
        kind: EventType = "ADDED" if previous is None else "MODIFIED"
        left: Stored | None = stored
        if deleted:
            kind, left, past = "DELETED", None, past + size
        return cls(
            stored.revision, kind, stored.key, stored, previous, left, size, past, size + past
        )

    @property
    def past(self) -> list[Stored]:
        """The versions that are kept for the sake of this change alone."""
        past = [] if self.previous is None else [self.previous]
        return [*past, self.object] if self.type == "DELETED" else past

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
        lines = self._lines
        if lines is not None and shown in lines:
            return lines[shown]
        line = b'{"type":"%b","object":%b}\n' % (shown.encode(), self.object_as(shown).raw)
        if lines is not None:
            lines[shown] = line
        return line

    def forget(self) -> None:
        """Keep only the bytes of versions that nobody reads any more, and no lines, from now on."""
        self._lines = None
        if self.previous is not None:
            self.previous.forget()
        if self.left is None:
            self.object.forget()
