"""Time and randomness: the only door through which either enters the program.

A decision that reads the wall clock cannot be replayed, so everything that needs `now` is handed a
`Clock`, everything that needs rng a `Random`, and a linter refuses other sources.

    SystemClock ─┐
                 ├─► Clock.now() ─► Seen.now ─► decide()
    FakeClock  ──┘
"""

from __future__ import annotations

import os
import random
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

__all__ = [
    "Clock",
    "FakeClock",
    "Random",
    "SystemClock",
    "new_rng",
    "new_uid",
    "parse_time",
    "rfc3339",
    "rfc3339_micro",
    "token",
]

Random = random.Random


class Clock(Protocol):
    """Two readings of time: one that people compare, one that never goes backwards."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clocks."""

    # The functions themselves: a claim alone asks some forty times.
    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)


class FakeClock:
    """A clock that stands still until it is told otherwise: for tests and simulation.

    `advance` moves both readings, as passing time does. `set` moves the wall clock alone, as an
    administrator or NTP does, backwards if need be; code that measures with the wall clock breaks.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._monotonic = 0.0
        self.set(now)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def set(self, now: datetime) -> None:
        self._now = _aware(now).astimezone(UTC)

    def advance(self, by: timedelta | float) -> None:
        """Let time pass: a timedelta or seconds, never negative."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta(0):
            raise ValueError(f"time does not run backwards: {step}")
        self._now += step
        self._monotonic += step.total_seconds()


# What is not random in a UUID: its version and its variant, as RFC 9562 has them.
_FIXED = 0xF << 76 | 0b11 << 62
_VERSION_4 = 0x4 << 76 | 0b10 << 62


def new_uid() -> str:
    """Return a fresh random UUID (version 4), spelled as Kubernetes spells `metadata.uid`."""
    number = int.from_bytes(os.urandom(16)) & ~_FIXED | _VERSION_4
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def token(nbytes: int = 32) -> str:
    """Return `nbytes` of secret randomness as URL-safe text."""
    return secrets.token_urlsafe(nbytes)


def new_rng(seed: int | None = None) -> Random:
    """Return a generator for jitter and choice, never for secrets. A seed makes it repeatable."""
    return random.Random(seed)  # noqa: S311  jitter and choice are not secrets


def rfc3339(moment: datetime) -> str:
    """Spell a moment as Kubernetes `metav1.Time`: UTC, `Z`, fractions of a second cut off."""
    return _in_utc(moment).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def rfc3339_micro(moment: datetime) -> str:
    """Spell a moment as Kubernetes `metav1.MicroTime`: UTC, six decimals, `Z`."""
    return _in_utc(moment).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


# fromisoformat alone also takes week dates, missing zones and blanks; the wire has none of these.
_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 moment with any offset and any number of decimals (cut to microseconds)."""
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"not an RFC 3339 time (want e.g. 2026-01-31T12:00:00Z): {text!r}")
    try:
        return _in_utc(datetime.fromisoformat(text.upper()))
    except OverflowError:
        raise ValueError(f"a time that is out of range in UTC: {text!r}") from None


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is UTC else _aware(moment).astimezone(UTC)


def _aware(moment: datetime) -> datetime:
    # A naive datetime would silently be read as local time.
    if moment.tzinfo is None:
        raise ValueError(f"a moment without a time zone is ambiguous: {moment}")
    return moment
