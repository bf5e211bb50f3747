"""Event correlation: many tellings of one thing become one Event with a count, as in client-go.

    told ─► combine similar ones ─► count the same ─► spam filter ─► New | Repeated | None

* The same object, type, reason and message within `WINDOW` is one Event: its `count` rises and its
  `lastTimestamp` moves.
* From the `SIMILAR`th different message on that one object has for one reason within `WINDOW`, they
  are one Event "(combined from similar events): …" with the newest message.
* Of one object and type, `BURST` are sent at once and then one each `REFILL` seconds. Warnings have
  an allowance of their own, so that what is wrong is not lost among what is usual.

Pure: time is a parameter. What is remembered is bounded; what was forgotten begins anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

WINDOW = timedelta(minutes=10)
SIMILAR = 10
BURST = 25
REFILL = 300.0  # seconds
REMEMBERED = 4096  # of each: Events, reasons, objects
COMBINED = "(combined from similar events): "

V = TypeVar("V")


class About(NamedTuple):
    """What an Event is about, but for its words."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str


class New(msgspec.Struct, frozen=True):
    """An Event to be created."""

    name: str
    message: str


class Repeated(msgspec.Struct, frozen=True):
    """An Event that should be there already: `count` and time are to be raised."""

    name: str
    message: str
    count: int
    first: datetime


class _Counted(msgspec.Struct):
    name: str
    count: int
    first: datetime
    last: datetime


class _Similar(msgspec.Struct):
    messages: set[str]
    last: datetime


class _Allowance(msgspec.Struct):
    left: float
    since: datetime


class Correlator:
    """Decides what becomes of each Event that one component tells."""

    def __init__(self) -> None:
        self._counted: OrderedDict[Hashable, _Counted] = OrderedDict()
        self._similar: OrderedDict[Hashable, _Similar] = OrderedDict()
        self._allowances: OrderedDict[Hashable, _Allowance] = OrderedDict()

    def decide(self, about: About, message: str, name: str, now: datetime) -> New | Repeated | None:
        """Say what to send; None: too many about this object. `name` is for a new one."""
        if self._is_one_of_many(about, message, now):
            key: Hashable = about
            message = COMBINED + message
        else:
            key = (about, message)
        if not self._allowed(about, now):
            return None
        counted = self._counted.get(key)
        if counted is None or now - counted.last > WINDOW:
            _remember(self._counted, key, _Counted(name, 1, now, now))
            return New(name, message)
        counted.count += 1
        counted.last = now
        self._counted.move_to_end(key)
        return Repeated(counted.name, message, counted.count, counted.first)

    def _is_one_of_many(self, about: About, message: str, now: datetime) -> bool:
        similar = self._similar.get(about)
        if similar is None or now - similar.last > WINDOW:
            similar = _Similar(set(), now)
        _remember(self._similar, about, similar)
        similar.last = now
        if message in similar.messages:
            return False
        if len(similar.messages) >= SIMILAR - 1:
            return True
        similar.messages.add(message)
        return False

    def _allowed(self, about: About, now: datetime) -> bool:
        key = about._replace(reason="")
        allowance = self._allowances.get(key) or _Allowance(BURST, now)
        _remember(self._allowances, key, allowance)
        refilled = (now - allowance.since).total_seconds() / REFILL
        allowance.left = min(BURST, allowance.left + max(0.0, refilled))
        allowance.since = now
        if allowance.left < 1:
            return False
        allowance.left -= 1
        return True


def _remember(values: OrderedDict[Hashable, V], key: Hashable, value: V) -> None:
    values[key] = value
    values.move_to_end(key)
    if len(values) > REMEMBERED:
        values.popitem(last=False)
