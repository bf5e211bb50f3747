"""What Pods leave is removed; what cannot be removed concerns nobody else, and is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.volumes import leftovers
from boilerhouse.embedded.kubelet.volumes.leftovers import Leftovers
from tests.deep import dig, somewhere
from tests.e2e.tenants import eventually

pytestmark = pytest.mark.processes


class Yard:
    """Directories of Pods, on the disk and in memory, and who was forgotten and what was told."""

    def __init__(self, room: Path) -> None:
        self.pods = room / "pods"
        self.pods.mkdir()
        (room / "shm").mkdir()
        self.memory = Memory.open(room, room / "shm")
        self.forgotten: list[str] = []
        self.told: list[str] = []
        self.leftovers = Leftovers(
            SystemClock(), self.pods, self.memory, self.forgotten.append, self.told.append
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.leftovers.run())
        try:
            yield
        finally:
            self.leftovers.stop()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    with somewhere() as room:
        yield Yard(room)


@contextlib.contextmanager
def immutable(file: Path) -> Iterator[None]:
    """Have a file that not even root may remove."""
    if subprocess.run(["chattr", "+i", file], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", file], check=True)


async def test_everything_of_a_pod_goes(yard: Yard) -> None:
    """Also what a tenant has closed to its owner, whatever its depth; links are not followed."""
    outside = yard.pods.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    closed = yard.pods / "u/volumes/v/closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "link").symlink_to(outside)
    dig(yard.pods / "u/volumes/v/deep", 1_500)
    dig(yard.memory.directory("u") / "w", 1_500)
    (closed / "inner").chmod(0)
    closed.chmod(0)
    await yard.leftovers.clean("u")
    assert list(yard.pods.iterdir()) == []
    assert yard.memory.pods() == []
    assert (outside / "file").read_text() == "stays"
    assert (yard.forgotten, yard.told, yard.leftovers.warnings()) == (["u"], [], [])


async def test_what_cannot_be_removed_is_told_and_tried_again(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its identity until it is gone; the others go meanwhile."""
    monkeypatch.setattr(leftovers, "_FIRST_SECONDS", 0.05)
    yard = Yard(tmp_path)  # on a disk: in memory no file is immutable
    for name in ("a", "b", "c"):
        (yard.pods / name).mkdir()
        (yard.pods / name / "file").touch()
    async with yard.running():
        with immutable(yard.pods / "b/file"):
            yard.leftovers.sweep({"a", "b", "c", "only-an-identity"})
            await eventually(lambda: _is(sorted(yard.forgotten) == ["a", "c", "only-an-identity"]))
            await eventually(lambda: _is(len(yard.leftovers.warnings()) == 1))
            (warning,) = yard.leftovers.warnings()
            assert warning.startswith("what Pod b left cannot be removed")
            (words,) = yard.told
            assert f"what Pod b left in {yard.pods / 'b'} is set aside" in words
            assert "'file' cannot be removed: Operation not permitted" in words
        await eventually(lambda: _is("b" in yard.forgotten))
    assert yard.leftovers.warnings() == []
    assert yard.told == [words]
    assert list(yard.pods.iterdir()) == []


async def test_a_large_tree_keeps_nobody_waiting(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its turn the others have theirs; it is not wrong, and gone in the end."""
    monkeypatch.setattr(leftovers, "_TURN", 0.01)
    dig(yard.pods / "large", 20_000)
    (yard.pods / "small").mkdir()
    await yard.leftovers.clean("large")
    assert yard.forgotten == []
    assert yard.leftovers.warnings() == []
    async with yard.running():
        yard.leftovers.sweep({"small"})
        await eventually(lambda: _is(len(yard.forgotten) == 2))
    assert yard.forgotten == ["small", "large"]


async def test_a_stop_does_not_wait_for_a_removal(yard: Yard) -> None:
    """What is left then is found by the next start."""
    dig(yard.pods / "large", 20_000)
    yard.leftovers.stop()
    await yard.leftovers.clean("large")
    assert yard.forgotten == []
    assert (yard.pods / "large").exists()


async def _is(holds: bool) -> bool:
    return holds
