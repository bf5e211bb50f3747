"""Which instance is counted when: who can be near its limit, within 2 % of a core for all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from boilerhouse.node.agent.disk import monitor as diskmonitor
from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.disk.monitor import SAVED_UP, SHARE, Allowance, DiskMonitor, FreeSpace
from tests.unit.node.agent.agent_fixture import eventually


@dataclass(eq=False)
class Instance:
    """An instance that is as urgent, and costs as much, as a test wants."""

    directory: Path
    urgent: float | None
    costs: float = 0.0
    counted: list[str] = field(default_factory=list)
    name: str = ""

    def look(self, space: FreeSpace) -> float | None:
        return self.urgent

    def press(self, growth: DiskLimit | None) -> None:
        self.counted.append(f"{self.name} may grow by {growth and growth.bytes}")

    async def count(self, space: FreeSpace) -> float:
        self.counted.append(self.name)
        if self.costs < 0:
            raise OSError("its files do what they like")
        return self.costs


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diskmonitor, "TICK", 0.01)


def test_free_space_that_falls_and_rises_is_summed_up(tmp_path: Path) -> None:
    """What one writes while another deletes is seen as both, tick by tick."""
    space = FreeSpace.of(tmp_path)
    (tmp_path / "f").write_bytes(bytes(32 << 20))
    space.look()
    fallen = space.fallen_bytes
    assert fallen >= 16 << 20  # others may free some at the same time
    assert space.fallen_inodes >= 0
    before = space.risen
    (tmp_path / "f").unlink()
    space.look()
    assert space.fallen_bytes >= fallen
    assert space.risen > before


def test_what_was_freed_on_purpose_and_is_not_free_fell(tmp_path: Path) -> None:
    """A piece of a reserve that is given up and taken between two looks leaves no other trace."""
    space = FreeSpace.of(tmp_path)
    space.look()
    fallen = space.fallen_bytes, space.fallen_inodes
    space.expect(64 << 20, 10_000)
    space.look()
    assert space.fallen_bytes >= fallen[0] + (32 << 20)  # others may free some at the same time
    assert space.fallen_inodes >= fallen[1] + 5_000


async def test_a_full_machine_is_told_to_all_and_to_who_comes_later(tmp_path: Path) -> None:
    """And that it is over; what has ended hears nothing."""
    monitor = DiskMonitor()
    one, two, gone = (Instance(tmp_path, None, name=name) for name in ("one", "two", "gone"))
    for instance in (one, gone):
        monitor.add(instance)
    await monitor.remove(gone)
    monitor.press(DiskLimit(5, 5))
    monitor.add(two)
    monitor.reserve_changed(4096, 1)
    monitor.press(None)
    assert one.counted == ["one may grow by 5", "one may grow by None"]
    assert two.counted == ["two may grow by 5", "two may grow by None"]
    assert gone.counted == []
    for instance in (one, two):
        await monitor.remove(instance)


def test_an_allowance_is_two_percent_and_a_little_saved_up() -> None:
    """A count of w seconds is paid for by 49 w without one."""
    allowance = Allowance(0.0)
    assert allowance.available(0.0)
    allowance.spend(SAVED_UP + 1.0)
    assert not allowance.available(1 / SHARE - 1)
    assert allowance.available(1 / SHARE + 1)
    allowance.available(1e6)
    allowance.spend(SAVED_UP)
    assert not allowance.available(1e6)


async def test_the_most_endangered_is_counted_first(tmp_path: Path) -> None:
    """Whoever need not be counted is not; one whose count fails keeps no other from being."""
    monitor = DiskMonitor()
    order: list[str] = []
    wanted = [("b", 0.96), ("a", 1.5), ("no", None), ("bad", 1.2)]
    made = [Instance(tmp_path, urgent, counted=order, name=name) for name, urgent in wanted]
    made[3].costs = -1
    for one in made[:3]:
        monitor.add(one)
    await eventually(lambda: len(order) >= 4)
    assert order[:4] == ["a", "b", "a", "b"]
    monitor.add(made[3])
    del order[:]
    await eventually(lambda: order.count("a") > 3 and "bad" in order)
    for one in made:
        await monitor.remove(one)
        await monitor.remove(one)
    del order[:]
    await asyncio.sleep(0.05)
    assert order == []


async def test_who_costs_much_is_not_counted_again_soon(tmp_path: Path) -> None:
    """Nor is anybody else, whatever their number."""
    monitor = DiskMonitor()
    dear = Instance(tmp_path, 2.0, costs=60.0)
    others = [Instance(tmp_path, 1.0) for _ in range(100)]
    for one in (dear, *others):
        monitor.add(one)
    await eventually(lambda: bool(dear.counted))
    await asyncio.sleep(0.05)
    assert len(dear.counted) == 1
    assert not any(one.counted for one in others)
    for one in (dear, *others):
        await monitor.remove(one)


async def test_a_file_system_is_looked_at_through_whoever_is_left(tmp_path: Path) -> None:
    """The directory of one that has ended is gone."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    monitor = DiskMonitor()
    ended, stays = Instance(first, None), Instance(second, 1.0)
    monitor.add(ended)
    monitor.add(stays)
    await monitor.remove(ended)
    first.rmdir()
    await eventually(lambda: len(stays.counted) > 2)
    await monitor.remove(stays)
