"""tests/unit has the folders of what it tests, so that a module's tests are found by its path."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
PACKAGE = ROOT / "src" / "boilerhouse"
BESIDE = {"cluster", "gameday"}  # packages of the repository that are not installed


def folders() -> list[str]:
    tests = {path.parent for path in UNIT.rglob("test_*.py")} - {UNIT}
    return sorted(str(path.relative_to(UNIT)) for path in tests)


@pytest.mark.parametrize("folder", folders())
def test_every_folder_is_one_of_the_source(folder: str) -> None:
    """A folder of tests without a folder of modules was left behind by a move."""
    home = ROOT if folder.split("/")[0] in BESIDE else PACKAGE
    assert list((home / folder).glob("*.py")), f"{home / folder} has no modules"
