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

    __slots__ = ("_body", "_keep", "key", "raw", "revision")

    def __init__(self, key: Key, revision: int, body: dict[str, Any] | None, raw: bytes) -> None:
        self.key: Final = key
        self.revision: Final = revision
        self.raw: Final = raw
        self._body = body
        self._keep = True

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


@dataclass(slots=True, eq=False)
class Change:
    """One committed write. `previous` is the version it replaced: None only when ADDED."""

    revision: int
    type: EventType
    key: Key
    object: Stored
    previous: Stored | None
    past_bytes: int = field(init=False, repr=False)  # what the JSON of `past` takes
    # About what it keeps beside that while it is fresh: lines, and bodies ready to be read.
    weight: int = field(init=False, repr=False)
    _lines: dict[str, bytes] | None = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        size = len(self.object.raw)
        past = 0 if self.previous is None else len(self.previous.raw)
        self.past_bytes = past + size if self.type == "DELETED" else past
        self.weight = size + self.past_bytes

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
        line = None if self._lines is None else self._lines.get(shown)
        if line is None:
            raw = self.object_as(shown).raw
            line = b'{"type":"%b","object":%b}\n' % (shown.encode(), raw)
            if self._lines is not None:
                self._lines[shown] = line
        return line

    def forget(self) -> None:
        """Keep only the bytes of versions that nobody reads any more, and no lines, from now on."""
        self._lines = None
        for version in self.past:
            version.forget()
