"""Disk use and newest change: right, cheap, and honest about what was not looked at."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock, SystemClock
from boilerhouse.node.agent.disk.survey import FRESH, Budget, Survey
from boilerhouse.node.agent.overlays import Overlays
from boilerhouse.node.agent.protocol import Changes, Usage
from tests.deep import dig, somewhere
from tests.unit.node.agent.agent_fixture import Rig, open_descriptors, running


async def test_usage_is_what_du_says(rig: Rig) -> None:
    """Blocks on disk count, holes do not, and a file with two names counts once."""
    (rig.workspace / "a").write_bytes(os.urandom(1 << 20))
    os.link(rig.workspace / "a", rig.workspace / "b")
    with (rig.workspace / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    (rig.workspace / "loop").symlink_to(rig.workspace)
    usage = Usage.decode((await rig.ask("GET", "/usage")).body)
    assert usage.complete
    assert usage.directories.keys() == {"/workspace", "/var/data"}
    assert 1 << 20 <= usage.directories["/workspace"] < 2 << 20
    assert usage.used == sum(usage.directories.values())


async def test_usage_is_remembered(tmp_path: Path) -> None:
    """Asked again soon, the agent does not walk again; later it does, and says how old it is."""
    clock = FakeClock()
    async with running(tmp_path, clock) as rig:
        await rig.ask("GET", "/usage")
        (rig.workspace / "a").write_bytes(os.urandom(1 << 16))
        clock.advance(FRESH - 1)
        usage = Usage.decode((await rig.ask("GET", "/usage")).body)
        assert (usage.entries, usage.age) == (0, FRESH - 1)
        clock.advance(2)
        usage = Usage.decode((await rig.ask("GET", "/usage")).body)
        assert (usage.entries, usage.age) == (1, 0)


async def test_the_newest_change(rig: Rig) -> None:
    """Any change below counts, deletion too, since it changes the directory."""
    (rig.workspace / "d").mkdir()
    (rig.workspace / "d/f").touch()
    for change in (
        lambda: (rig.workspace / "d/f").write_text("x"),
        lambda: (rig.workspace / "d/f").chmod(0o600),
        lambda: (rig.workspace / "d/f").unlink(),
    ):
        before = time.time_ns() - 20_000_000  # file times come from a coarser clock
        change()
        changes = Changes.decode((await rig.ask("GET", "/changes", ("dir", "/workspace"))).body)
        assert changes.complete
        assert changes.newest is not None
        assert changes.newest >= before


async def test_times_that_lie(rig: Rig) -> None:
    """A file dated into the future or the past changed when it was dated so, not at that date."""
    past, future = rig.workspace / "past", rig.workspace / "future"
    for file, date in ((past, 1_000_000_000), (future, 4_000_000_000)):
        file.touch()
        os.utime(file, (date, date))
    changes = Changes.decode((await rig.ask("GET", "/changes")).body)
    assert changes.newest is not None
    assert abs(changes.newest - time.time_ns()) < 10_000_000_000


async def test_a_clock_set_back(tmp_path: Path) -> None:
    """Times that lie ahead of the clock are not believed: nothing is 'newest' for ever."""
    (tmp_path / "f").touch()
    survey = Survey(Overlays({"/w": tmp_path}), FakeClock())  # stands before the file was made
    changes = await survey.changes([], None)
    assert (changes.newest, changes.complete) == (None, True)


async def test_since_ends_the_walk(tmp_path: Path) -> None:
    """Asked only whether something changed since then, the agent stops at the first that did."""
    for number in range(100):
        (tmp_path / str(number)).touch()
    survey = Survey(Overlays({"/w": tmp_path}), SystemClock())
    some = await survey.changes(["/w"], 0)
    assert some.newest is not None
    assert some.entries <= 1
    none = await survey.changes(["/w"], time.time_ns())
    assert (none.complete, none.entries) == (True, 100)
    assert none.newest is not None
    assert none.newest <= time.time_ns()


async def test_what_cannot_be_looked_through_is_named(rig: Rig) -> None:
    """A link, a file or what is outside is named, with the reason; the answer is not complete."""
    (rig.workspace / "link").symlink_to("/etc")
    (rig.workspace / "file").touch()
    asked = ("/workspace", "/workspace/link", "/workspace/file", "/etc")
    told = await rig.ask("GET", "/changes", *(("dir", path) for path in asked))
    changes = Changes.decode(told.body)
    assert not changes.complete
    no_directory = "is or leads through what is no directory; links are not followed"
    assert changes.unreadable[:2] == (
        f"'/workspace/link' {no_directory}",
        f"'/workspace/file' {no_directory}",
    )
    assert changes.unreadable[2].startswith("'/etc' is in no overlay directory")
    assert changes.newest is not None


async def test_what_is_not_there_has_not_changed(rig: Rig) -> None:
    """A watched directory that does not exist is no obstacle: the others tell, or nothing does."""
    missing = ("/workspace/none", "/workspace/none/below")
    told = await rig.ask("GET", "/changes", *(("dir", path) for path in missing))
    assert Changes.decode(told.body) == Changes(None, True, 0)
    told = await rig.ask("GET", "/changes", ("dir", missing[0]), ("dir", "/workspace"))
    changes = Changes.decode(told.body)
    assert changes.complete and changes.newest is not None


@pytest.mark.processes
@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["closed", "no entry"])
@pytest.mark.parametrize("where", ["", "d", "d/e"])
def test_what_may_not_be_read_is_named(tmp_path: Path, mode: int, where: str) -> None:
    """At the top or below: the path as the instance has it, and that it is not ours to read."""
    (tmp_path / "d/e/f").mkdir(parents=True)
    tmp_path.chmod(0o755)
    (tmp_path / where).chmod(mode)
    try:
        told = subprocess.run(
            [sys.executable, "-c", _ASK, str(tmp_path)], capture_output=True, check=True
        )
    finally:
        (tmp_path / where).chmod(0o755)
    changes = Changes.decode(told.stdout)
    path = f"/w/{where}".rstrip("/")
    assert not changes.complete
    assert changes.unreadable == (f"'{path}' cannot be reached by the agent",)


# Root reads everything, so somebody else has to ask: of a directory that was opened by root, since
# the way to it may be closed.
_ASK = """
import asyncio, os, sys
from boilerhouse.node.agent.overlays import Overlays
from boilerhouse.node.agent.disk.survey import Survey
from boilerhouse.core.clock import SystemClock
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
survey = Survey(Overlays({"/w": "."}), SystemClock())
print(asyncio.run(survey.changes(["/w"], None)).encode().decode())
"""


async def test_a_bad_since(rig: Rig) -> None:
    """Only a number of nanoseconds is a moment."""
    for since in ("", "x", "-1", "1e9", "²", "9" * 30):
        assert (await rig.ask("GET", "/changes", ("since", since))).status == 400


async def test_walks_have_a_budget(tmp_path: Path) -> None:
    """Too many entries or too much time: the walk ends and says so."""
    for number in range(600):
        (tmp_path / str(number)).touch()
    overlays = Overlays({"/w": tmp_path})
    few = Survey(overlays, SystemClock(), Budget(entries=10))
    usage = await few.usage()
    assert not usage.complete
    assert 10 <= usage.entries < 600
    assert not (await few.changes([], None)).complete
    none = Survey(overlays, SystemClock(), Budget(seconds=0))
    assert not (await none.usage()).complete
    assert not (await none.changes([], None)).complete


async def test_a_large_tree_is_counted_to_its_end(tmp_path: Path) -> None:
    """What one walk does not reach, the next ones do: until then the figure is a lower bound."""
    for number in range(1000):
        (tmp_path / str(number)).write_bytes(b"x")
    clock = FakeClock()
    survey = Survey(Overlays({"/w": tmp_path}), clock, Budget(entries=200))
    figures = []
    while not (usage := await survey.usage()).complete:
        figures.append(usage.used)
        assert len(figures) < 10
        clock.advance(FRESH + 1)
    figures.append(usage.used)
    assert figures == sorted(set(figures))
    assert len(figures) >= 4
    assert (usage.entries, usage.inodes) == (1000, 1001)


@pytest.mark.processes
async def test_no_tree_is_too_deep() -> None:
    """Neither for counting nor for the newest change, and few descriptors do."""
    with somewhere() as room:
        dig(room / "t", 3_000)
        dig(room / "n", 130, "n" * 200, bytes(1 << 20))
        descriptors = open_descriptors()
        survey = Survey(Overlays({"/w": room}), SystemClock())
        usage = await survey.usage()
        assert usage.complete
        assert usage.inodes == 1 + 3_002 + 132
        assert usage.used >= 1 << 20
        changes = await survey.changes([], None)
        assert (changes.complete, changes.entries) == (True, 3_002 + 132)
        assert open_descriptors() <= descriptors


async def test_many_askers_share_one_walk(tmp_path: Path) -> None:
    """A hundred questions at once cost one walk."""
    survey = Survey(Overlays({"/w": tmp_path}), FakeClock())
    answers = await asyncio.gather(*(survey.usage() for _ in range(100)))
    (tmp_path / "new").touch()
    assert {answer.entries for answer in answers} == {0}
    assert (await survey.usage()).entries == 0
