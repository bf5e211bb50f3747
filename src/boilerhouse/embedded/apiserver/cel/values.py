"""Values of CEL that JSON does not have, and the arithmetic of those it has.

64-bit integers that overflow with an error, division that cuts toward zero, timestamps and
durations in whole nanoseconds, and equality that does not take true for 1.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import total_ordering
from typing import Any, Final

from boilerhouse.embedded.apiserver.cel.budget import compare, spend

_INT64 = 2**63
_NANO = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHEN = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})?", re.ASCII
)


class CelError(Exception):
    """Evaluation failed; the message says how, in the words rules' authors know from Kubernetes."""


@total_ordering
class Timestamp:
    """A point in time, in nanoseconds since 1970."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self.__class__ and self.nanos == getattr(other, "nanos", None)

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash((self.__class__, self.nanos))

    @property
    def moment(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.nanos // 1000)

    def __str__(self) -> str:
        text = self.moment.replace(microsecond=0, tzinfo=None).isoformat()
        part = f"{self.nanos % _NANO:09d}".rstrip("0")
        return f"{text}{'.' + part if part else ''}Z"


class Duration(Timestamp):
    """A length of time, in nanoseconds."""

    __slots__ = ()

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.nanos), _NANO)
        part = f".{rest:09d}".rstrip("0").rstrip(".")
        return f"{'-' if self.nanos < 0 else ''}{whole}{part}s"


class Optional:
    """A value that may be absent. Presence is apart from the value: null is a value."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Any = None) -> None:
        self.present = present
        self.value = value


NONE: Final = Optional(False)


def parse_timestamp(text: Any) -> Timestamp:
    """Read RFC 3339; a time without zone is taken as UTC, as the server takes it."""
    match = _WHEN.fullmatch(text)
    try:
        if match is None:
            raise ValueError("not RFC 3339")
        zone = "+00:00" if not match[4] or match[4] in "Zz" else match[4]
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
    except ValueError as error:
        raise CelError(f"invalid date-time formatted string {text}: {error}") from error
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds
    return Timestamp(seconds * _NANO + int((match[3] or "0")[:9].ljust(9, "0")))


def in_range(value: int) -> int:
    if -_INT64 <= value < _INT64:
        return value
    raise CelError("integer overflow")


def divide(a: int, b: int) -> int:
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return in_range(quotient if (a < 0) == (b < 0) else -quotient)


def remainder(a: int, b: int) -> int:
    if b == 0:
        raise CelError("modulus by zero")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def divide_floats(a: float, b: float) -> float:
    if b == 0:
        return float("nan") if a == 0 or a != a else float("inf") if a > 0 else float("-inf")
    return a / b


def equal(a: Any, b: Any) -> bool:
    """Compare finished values; numbers of different types compare by value, true is not 1."""
    kind = a.__class__
    if kind is b.__class__:
        if kind is list:
            spend(len(a))
            return len(a) == len(b) and all(map(equal, a, b))
        if kind is dict:
            spend(len(a))
            return a.keys() == b.keys() and all(equal(value, b[key]) for key, value in a.items())
        if kind is Optional:
            return a.present == b.present and equal(a.value, b.value)
        compare(a)
        return bool(a == b)
    numbers = (int, float)
    return kind in numbers and b.__class__ in numbers and bool(a == b)


def show(value: Any) -> str:
    """Turn a scalar into text, as string() does."""
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is float:
        return _show_float(value)
    if value.__class__ is bytes:
        try:
            return str(value.decode())
        except UnicodeDecodeError as error:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error
    if value.__class__ in (str, int, Timestamp, Duration):
        return str(value)
    raise CelError("no such overload: string")


def _show_float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    sign, power = exponent[0], exponent.lstrip("+-")
    return f"{digits.removesuffix('.0')}e{'-' if sign == '-' else '+'}{power.zfill(2)}"


def ordered(name: str) -> Callable[[Any, Any], bool]:
    """Return the comparison an operator stands for."""
    compared: Callable[[Any, Any], bool] = {
        "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    }[name]  # fmt: skip

    def in_order(a: Any, b: Any) -> bool:
        compare(a)
        return bool(compared(a, b))

    return in_order
