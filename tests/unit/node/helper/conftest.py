from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.node.helper.store.store import Store
from tests.unit.node.helper.helper_fixture import House, furnished


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with furnished(tmp_path) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An open store; whoever gets it closes it."""
    directory = tmp_path / "snapshots"
    directory.mkdir()
    return Store.open(directory, SystemClock())
