"""Durations as Kubernetes spells them: "5s", "1m30s", "250ms"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from boilerhouse.core.patterns import MEANING

_UNIT = r"([0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h))"
PATTERN = rf"^{_UNIT}{{1,4}}\Z"

Duration = Annotated[
    str,
    Meta(min_length=2, max_length=32, pattern=PATTERN, extra={MEANING: "a duration such as 1m30s"}),
]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def parsed(text: str) -> timedelta:
    """Read a duration that matches PATTERN."""
    total = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=total)
