"""What a test does where something it needs is absent: skip with one sentence, or fail in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def absent(sentence: str) -> NoReturn:
    """Skip the test, or fail it where everything is expected to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and {sentence}", pytrace=False)
    pytest.skip(sentence)
