"""What every test of the client shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[EventDict]]:
    """Keep log events instead of printing them: pretty tracebacks take longer than the tests."""
    with capture_logs() as captured:
        yield captured
