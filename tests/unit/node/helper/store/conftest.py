from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.helper.store.store_fixture import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "snapshots")
    made.open()
    yield made
    made.close()
