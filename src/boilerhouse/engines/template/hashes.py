"""Hashes of what a generation is made of: stable under the order of keys. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

LENGTH = 16  # hexadecimal digits


def canonical(value: Any) -> str:
    """Spell a JSON value in the one way in which it is hashed."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """Return the hash of a value; empty for a value that says nothing."""
    if value is None or value in ("", {}, [], ()):
        return ""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]


def _plain(value: Any) -> Any:
    """Make one value of those that JSON reads alike: 1 and 1.0."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
