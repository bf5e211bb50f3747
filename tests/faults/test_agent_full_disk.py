"""An agent whose disk is full to the last block."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.node.agent.agent_fixture import running


def fill(disk: Path) -> Path:
    """Leave no room, as only one file can: return it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    return ballast


async def test_a_save_is_refused_and_the_tenant_runs(small_disk: Path) -> None:
    """Whether its number or the halt cannot be noted; with room again it works."""
    async with running(small_disk) as rig:
        ballast = fill(small_disk)
        for order in ((("round", "1"),), ()):
            told = await rig.ask("POST", "/save", ("id", "a1"), *order)
            assert (told.status, b"disk-full" in told.body) == (507, True), told.body
        assert rig.tenants.story == []
        assert not (await rig.state()).frozen
        assert list((small_disk / "state").iterdir()) == []
        ballast.unlink()
        assert (await rig.ask("POST", "/save", ("id", "a2"), ("round", "1"))).status == 200
        ballast = fill(small_disk)
        assert (await rig.ask("POST", "/thaw", ("round", "2"))).status == 507
        assert (await rig.state()).frozen
        ballast.unlink()
        assert (await rig.ask("POST", "/thaw", ("round", "2"))).status == 204
        assert not (await rig.state()).frozen
