"""Kubernetes quantities: "1500m", "1.5Gi", "12e6" as exact numbers with a canonical spelling.

text ─► parse() ─► Quantity (compare, add, subtract) ─► str(), the one spelling of that number

A quantity counts nanos as a whole number, so sums over thousands of Pods are exact. What is finer
than a nano is rounded away from zero, as on a real server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Literal

Form = Literal["decimal", "binary", "exponent"]

_NANO = 10**9
_MILLI = 10**6  # nanos in a milli
# The largest a binary quantity gets on a real server.
_MOST = (2**63 - 1) * _NANO

_SHAPE = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([a-zA-Z]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE][-+]?[0-9]{1,3}")
_DECIMAL = {
    "n": 1, "u": 10**3, "m": 10**6, "": 10**9, "k": 10**12, "M": 10**15, "G": 10**18,
    "T": 10**21, "P": 10**24, "E": 10**27,
}  # fmt: skip
_BINARY = {
    name: 1024 ** (power + 1) * _NANO
    for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
}


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number, and the family of suffixes it was written with."""

    nanos: int
    form: Form = "decimal"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __add__(self, other: Quantity) -> Quantity:
        # A sum is written like its first part; nothing has no say in it.
        return Quantity(self.nanos + other.nanos, self.form if self.nanos else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.form if self.nanos else other.form)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __float__(self) -> float:
        return self.nanos / _NANO

    @property
    def whole(self) -> int:
        """The number rounded up: bytes, Pods."""
        return -(-self.nanos // _NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded up: what CPU is counted in."""
        return -(-self.nanos // _MILLI)

    def __str__(self) -> str:
        if not self.nanos:
            return "0"
        if self.form == "binary" and self.nanos % _NANO == 0 and abs(self.nanos) >= 1024 * _NANO:
            suffixes = [("", _NANO), *_BINARY.items()]
        elif self.form == "exponent":
            suffixes = [
                (f"e{power}" if power else "", 10 ** (power + 9)) for power in range(-9, 28, 3)
            ]
        else:
            suffixes = list(_DECIMAL.items())
        # Nanos are whole, so the smallest suffix always fits.
        suffix, unit = next((s, u) for s, u in reversed(suffixes) if self.nanos % u == 0)
        return f"{self.nanos // unit}{suffix}"


ZERO = Quantity(0)


class BadQuantity(ValueError):
    """The text is no quantity; the message says why."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """Parse a quantity, or raise BadQuantity."""
    match = _SHAPE.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise BadQuantity(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, number, suffix = match.groups()
    form: Form = "decimal"
    if suffix in _DECIMAL:
        scale = _DECIMAL[suffix]
    elif suffix in _BINARY:
        scale, form = _BINARY[suffix], "binary"
    elif _EXPONENT.fullmatch(suffix):
        power = int(suffix[1:])
        scale, form = 10 ** (power + 9) if power >= -9 else 0, "exponent"
    else:
        raise BadQuantity("unable to parse quantity's suffix")
    digits, _, fraction = number.partition(".")
    mantissa = int(digits + fraction or "0")
    # Rounded up to a nano: too small to count is still more than nothing.
    nanos = -(-mantissa * scale // 10 ** len(fraction)) if scale else min(mantissa, 1)
    if form == "binary":
        nanos = min(nanos, _MOST)
    return Quantity(-nanos if sign == "-" else nanos, form)


def spelled(value: str | float) -> str:
    """Parse a JSON value (quantities may be numbers) and spell it as it is stored."""
    return str(parse(value if isinstance(value, str) else repr(value)))


@lru_cache(maxsize=4096)
def spelled_resource(value: str | float) -> str:
    """Like `spelled`, for resource lists: there the server rounds up to thousandths."""
    quantity = parse(value if isinstance(value, str) else repr(value))
    return str(Quantity(quantity.milli * _MILLI, quantity.form))
