"""Whole numbers as they are written in a query: ASCII digits, nothing else.

Python's own `int()` also takes `1_0`, ` 5` and the digits of other scripts, which no other server
takes: two servers would disagree about one request.
"""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = 2**63


def whole_number(text: str) -> int:
    """Read a 64-bit integer; raise ValueError, with the reason, for anything else."""
    if not _WHOLE.fullmatch(text):
        raise ValueError("invalid syntax")
    number = int(text)
    if not -_INT64 <= number < _INT64:
        raise ValueError("value out of range")
    return number
