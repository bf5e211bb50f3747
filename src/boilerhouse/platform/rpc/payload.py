"""Bodies of the protocol: dataclasses as JSON objects, spelled as on the rest of our wire.

created_at ─► plain, encode ─► createdAt ─► of, decode ─► created_at

An agent runs beside every tenant and pays for every import: nothing but the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Self, cast


class Payload:
    """Base of the dataclasses that are sent. Their fields hold JSON's values, tuples for lists."""

    __slots__ = ()

    def plain(self) -> dict[str, Any]:
        return {spelled(name): _plain(getattr(self, name)) for name in names(type(self))}

    def encode(self) -> bytes:
        return json.dumps(self.plain()).encode()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Read what `plain` gives; `KeyError` if a field without a default is missing.

        Fields of a newer sender are ignored, and an older one may leave out what has a default.
        """
        given = {}
        for field in fields(cast(Any, cls)):
            key = spelled(field.name)
            if key in told or field.default is MISSING:
                value = told[key]
                given[field.name] = tuple(value) if isinstance(value, list) else value
        return cls(**given)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        told = json.loads(body)
        if not isinstance(told, dict):
            raise ValueError(f"not an object: {body[:80]!r}")
        return cls.of(told)


def names(kind: type[Payload]) -> list[str]:
    """Return the names of its fields."""
    return [field.name for field in fields(cast(Any, kind))]


def spelled(name: str) -> str:
    """Return a field's name as it is on the wire."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.plain() if isinstance(value, Payload) else value
