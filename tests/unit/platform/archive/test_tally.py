"""Fingerprints that two processes take together: the same as those of one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from boilerhouse.platform.archive import tally
from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.tally import fingerprint
from boilerhouse.platform.archive.walk import OPEN_DIRECTORY
from tests.deep import dig, somewhere

pytestmark = pytest.mark.processes


def seen(tree: Path) -> tuple[str, int, int]:
    root = os.open(tree, OPEN_DIRECTORY)
    try:
        return fingerprint([(b"workspace", root)])
    finally:
        os.close(root)


def plant(rng: random.Random, tree: Path, depth: int) -> None:
    tree.mkdir()
    for number in range(rng.randrange(12)):
        (tree / f"file-{number}").write_bytes(bytes(rng.randrange(100)))
    for number in range(rng.randrange(6) if depth else 0):
        plant(rng, tree / f"directory-{number}", depth - 1)


def test_together_they_see_what_one_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tree is divided, and however its directories are read."""
    rng = random.Random(4)
    shared = 0
    for number in range(40):
        tree = tmp_path / str(number)
        plant(rng, tree, 4)
        alone = seen(tree)
        with monkeypatch.context() as patch:
            patch.setattr(tally, "_MANY", rng.randrange(1, 60))
            patch.setattr(tally, "_SHARED", rng.randrange(1, 6))
            patch.setattr(tally, "_MOST", rng.randrange(1, 4))
            shared += seen(tree) == alone
    assert shared == 40


def test_a_change_is_seen_by_whoever_looks_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that gets longer in any of twenty directories makes another fingerprint."""
    monkeypatch.setattr(tally, "_MANY", 1)
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").write_bytes(b"")
    before = {seen(tmp_path)}
    for number in range(20):
        with (tmp_path / str(number) / "file").open("ab") as file:
            file.write(b"x")
        found = seen(tmp_path)
        assert found not in before
        assert found[1:] == (41, number + 1)
        before.add(found)


@pytest.mark.parametrize("where", range(4))
def test_what_cannot_be_looked_at_is_named(monkeypatch: pytest.MonkeyPatch, where: int) -> None:
    """Also if it is the second process that meets it."""
    monkeypatch.setattr(tally, "_MANY", 1)
    monkeypatch.setattr(tally, "LEVELS", 300)
    with somewhere() as room:
        for number in range(20):
            (room / f"{number:02}").mkdir()
        dig(room / f"{where:02}", 400, "deep")
        with pytest.raises(Failed) as caught:
            seen(room)
    assert caught.value.code == "too-deep"
    assert f"workspace/{where:02}/deep" in caught.value.message
