"""Logs of containers: entries, rotation, and reading them back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.kubelet.logs.log import LINE_BYTES, LogFile
from boilerhouse.embedded.kubelet.logs.logread import LogQuery, read_log

START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


async def everything(path: Path, query: LogQuery | None = None) -> bytes:
    return b"".join([block async for block in read_log(path, query or LogQuery())])


def test_an_entry_carries_time_stream_and_whether_the_line_ends(
    tmp_path: Path, clock: FakeClock
) -> None:
    """The file has the form that kubelet's runtimes write."""
    log = LogFile(tmp_path / "0.log", clock)
    log.write("stdout", b"hello\n")
    log.write("stderr", b"no end")
    log.close()
    assert (tmp_path / "0.log").read_bytes() == (
        b"2026-03-04T05:06:07.000000000Z stdout F hello\n"
        b"2026-03-04T05:06:07.000000000Z stderr F no end\n"
    )


async def test_any_bytes_come_back_as_they_were(tmp_path: Path, clock: FakeClock) -> None:
    """NUL, bare carriage returns, broken UTF-8 and empty lines survive."""
    output = b"\n\n\x00\xff\r\nplain\n  spaced  \n" + bytes(range(11, 256)) + b"\n"
    log = LogFile(tmp_path / "0.log", clock)
    for at in range(0, len(output), 7):
        log.write("stdout", output[at : at + 7])
    log.close()
    assert await everything(tmp_path / "0.log") == output


async def test_a_long_line_is_cut_into_pieces_and_read_back_whole(
    tmp_path: Path, clock: FakeClock
) -> None:
    """No entry is longer than the limit, however long the line."""
    line = b"x" * (3 * LINE_BYTES + 5)
    log = LogFile(tmp_path / "0.log", clock)
    log.write("stdout", line + b"\nnext\n")
    log.close()
    entries = (tmp_path / "0.log").read_bytes().split(b"\n")
    assert max(map(len, entries)) <= LINE_BYTES + 64
    assert await everything(tmp_path / "0.log") == line + b"\nnext\n"


async def test_a_line_without_end_does_not_grow_in_memory(tmp_path: Path, clock: FakeClock) -> None:
    """Output that never ends a line reaches the disk piece by piece."""
    log = LogFile(tmp_path / "0.log", clock)
    log.write("stdout", b"y" * (2 * LINE_BYTES + 1))
    assert (tmp_path / "0.log").stat().st_size > 2 * LINE_BYTES
    log.close()
    assert await everything(tmp_path / "0.log") == b"y" * (2 * LINE_BYTES + 1) + b"\n"


async def test_rotation_keeps_the_newest_and_bounds_the_disk(
    tmp_path: Path, clock: FakeClock
) -> None:
    """However much is printed, three files stay, and the last lines are in them."""
    log = LogFile(tmp_path / "0.log", clock, file_bytes=4096)
    for number in range(5000):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    files = [tmp_path / name for name in ("0.log", "0.log.1", "0.log.2")]
    assert not (tmp_path / "0.log.3").exists()
    assert sum(path.stat().st_size for path in files) <= 3 * 4096
    lines = (await everything(tmp_path / "0.log")).splitlines()
    assert lines[-1] == b"line 4999"
    assert lines == [b"line %d" % number for number in range(5000 - len(lines), 5000)]


@pytest.mark.parametrize("tail", [0, 1, 10, 150, 10_000])
async def test_tail_counts_across_rotated_files(
    tmp_path: Path, clock: FakeClock, tail: int
) -> None:
    """The last N lines are the last N lines, wherever the files were cut."""
    log = LogFile(tmp_path / "0.log", clock, file_bytes=4096)
    for number in range(200):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    kept = (await everything(tmp_path / "0.log")).splitlines()
    wanted = kept[-tail:] if tail else []
    assert (await everything(tmp_path / "0.log", LogQuery(tail=tail))).splitlines() == wanted


async def test_a_line_that_is_not_ended_can_be_read(tmp_path: Path, clock: FakeClock) -> None:
    """What was flushed is there, once; its pieces are one line, for `tail` and for times, too."""
    path = tmp_path / "0.log"
    log = LogFile(path, clock)
    log.write("stdout", b"first\n")
    log.write("stdout", b"name")
    log.flush()
    assert await everything(path) == b"first\nname"
    assert await everything(path, LogQuery(tail=1)) == b"name"
    clock.advance(1)
    log.write("stdout", b": ")
    log.flush()
    log.flush()
    log.write("stdout", b"bob\nlast\nend")
    log.flush()
    log.close()
    assert await everything(path) == b"first\nname: bob\nlast\nend"
    assert await everything(path, LogQuery(tail=3)) == b"name: bob\nlast\nend"
    assert await everything(path, LogQuery(tail=2)) == b"last\nend"
    shown = await everything(path, LogQuery(tail=3, timestamps=True))
    assert shown == (
        b"2026-03-04T05:06:07.000000000Z name: bob\n"
        b"2026-03-04T05:06:08.000000000Z last\n"
        b"2026-03-04T05:06:08.000000000Z end"
    )


async def test_since_and_timestamps(tmp_path: Path, clock: FakeClock) -> None:
    """Older entries are left out; times are shown on request."""
    log = LogFile(tmp_path / "0.log", clock)
    log.write("stdout", b"old\n")
    clock.advance(10)
    log.write("stdout", b"new\n")
    log.close()
    since = START + timedelta(seconds=5)
    assert await everything(tmp_path / "0.log", LogQuery(since=since)) == b"new\n"
    shown = await everything(tmp_path / "0.log", LogQuery(tail=1, timestamps=True))
    assert shown == b"2026-03-04T05:06:17.000000000Z new\n"


async def test_limit_bytes_cuts_the_answer(tmp_path: Path, clock: FakeClock) -> None:
    """No more than what was asked for is sent."""
    log = LogFile(tmp_path / "0.log", clock)
    log.write("stdout", b"0123456789\n")
    log.close()
    assert await everything(tmp_path / "0.log", LogQuery(limit_bytes=4)) == b"0123"


async def test_following_sees_every_line_across_rotation_and_ends_with_the_container(
    tmp_path: Path, clock: FakeClock
) -> None:
    """A follower that keeps up gets all output in order, then the end."""
    log = LogFile(tmp_path / "0.log", clock, file_bytes=2048)
    got = bytearray()
    arrived = asyncio.Event()

    async def follow() -> None:
        async for block in read_log(log.path, LogQuery(), log):
            got.extend(block)
            arrived.set()

    task = asyncio.create_task(follow())
    expected = bytearray()
    for number in range(300):
        line = b"line %d\n" % number
        expected += line
        log.write("stdout", line)
        async with asyncio.timeout(5):
            while bytes(got) != expected:
                arrived.clear()
                await arrived.wait()
    log.close()
    await asyncio.wait_for(task, 5)
    assert got == expected
    assert log.generation > 1


async def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    """A container that never ran has no log, which is no error."""
    assert await everything(tmp_path / "0.log") == b""
