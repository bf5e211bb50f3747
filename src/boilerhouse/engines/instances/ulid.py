"""ULIDs: 48 bits of time and 80 of chance, as 26 digits that sort by time. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHANCE = 80  # bits


def ulid(now: datetime, chance: int) -> str:
    """Return the ULID of a moment; of `chance` the lowest 80 bits are taken."""
    milliseconds = int((now - _EPOCH).total_seconds() * 1000)
    number = milliseconds << _CHANCE | chance & (1 << _CHANCE) - 1
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))
