"""Durations are read as Kubernetes writes them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from boilerhouse.engines.durations import PATTERN, parsed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("0s", 0), ("1h1m1s1ms", 3661.001)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert re.fullmatch(PATTERN, text)
    assert parsed(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "5d", "5s\n"])
def test_other_texts_are_refused(text: str) -> None:
    assert not re.match(PATTERN, text)
