from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.helper.house import House, furnished


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with furnished(tmp_path) as made:
        yield made
