"""Power loss: what an agent wrote down is there, whenever the machine went off."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from boilerhouse.node.agent.record import Record
from tests.faults.powerloss.promises import lose_power
from tests.faults.powerloss.recorder import build, record

PROGRAM = "tests.faults.powerloss.record_program"


async def broken(disk: Path, marks: list[str]) -> list[str]:
    """Read the record that is left: whole, and not older than what was promised."""
    try:
        found = Record(disk)
    except ValueError as error:
        return [f"cannot be read: {error}"]
    if not marks:
        return []
    if found.baseline is None or found.restored is None:
        return ["is gone"]
    return [] if found.baseline.digest >= marks[-1] else [f"is older than {marks[-1]}"]


async def test_what_was_written_is_there_after_a_power_loss(tmp_path: Path) -> None:
    """The restore that a Pod had is never forgotten, and the file is never half a file."""
    library = build(tmp_path)
    root = tmp_path / "disk"
    root.mkdir()
    command = [sys.executable, "-m", PROGRAM, str(root), "6"]
    recording = record(library, root, tmp_path / "log", command)
    scratch = tmp_path / "crashes"
    scratch.mkdir()
    assert len(recording.records) > 20
    found = await lose_power(recording, broken, scratch, random.Random(1), moments=120)
    assert found == []
