"""The fixture `world`: operator and pretended kubelet on an embedded API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.controllers.operator_fixture import World, running_world


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[EventDict]]:
    """Keep log events instead of printing them."""
    with capture_logs() as captured:
        yield captured


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_world(tmp_path / "data") as opened:
        yield opened
