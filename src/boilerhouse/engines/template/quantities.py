"""Quantities as exact numbers: "1500m", "1.5Gi", 2, "12e6"."""

from __future__ import annotations

import re
from fractions import Fraction

_SHAPE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([a-zA-Z]*)")
_EXPONENT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[eE]([+-]?[0-9]{1,2})")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_UNITS = {name: Fraction(1000) ** (power - 3) for power, name in enumerate(_DECIMAL)} | {
    name: Fraction(1024) ** (power + 1)
    for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
}


def amount(value: object) -> Fraction | None:
    """Return the number that a quantity means, or None if it means none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = value if isinstance(value, str) else repr(value)
    if len(text) > 64:
        return None
    if exponent := _EXPONENT.fullmatch(text):
        return Fraction(exponent[1]) * Fraction(10) ** int(exponent[2])
    shape = _SHAPE.fullmatch(text)
    if shape is None or shape[2] not in _UNITS:
        return None
    return Fraction(shape[1]) * _UNITS[shape[2]]
