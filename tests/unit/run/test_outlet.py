"""Lines for a reader that is gone, asleep or out of room: they never stop who writes them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from boilerhouse.run.outlet import ROOM, Outlet


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe of one page: the reader's end and the writer's."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


def told(count: int) -> str:
    return f"lost {count}\n"


def read_until(reader: int, end: str) -> str:
    text = ""
    while not text.endswith(end):
        text += os.read(reader, 65536).decode()
    return text


def test_lines_come_whole_and_in_order(pipe: tuple[int, int]) -> None:
    """What fits through is what was written, more than a pipe holds included."""
    reader, writer = pipe
    outlet = Outlet(writer)
    lines = [f"line {n} {'ä' * 100}\n" for n in range(500)]
    for line in lines:
        outlet.write(line)
    assert read_until(reader, lines[-1]) == "".join(lines)
    outlet.drain()


def test_a_reader_that_sleeps_holds_nobody_up(pipe: tuple[int, int]) -> None:
    """Beyond what may wait, lines are dropped and later counted in one line; memory is bounded."""
    reader, writer = pipe
    outlet = Outlet(writer, told)
    line, count = "x" * 1023 + "\n", 2 * ROOM // 1024
    for _ in range(count):
        outlet.write(line)
    outlet.drain(0.01)  # ends although nobody reads
    text = ""
    while "lost" not in text:
        text += os.read(reader, 65536).decode()
    kept, lost = text.count("x\n"), int(text.split("lost ")[1])
    assert kept + lost == count
    assert ROOM <= kept * len(line) <= ROOM + 4096 + len(line)


def test_a_reader_that_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    """A broken pipe drops lines, at once and without a word."""
    reader, writer = pipe
    os.close(reader)
    outlet = Outlet(writer, told)
    for _ in range(100):
        outlet.write("nobody hears this\n")
    outlet.drain(5)


def test_losses_are_told_when_writing_works_again(pipe: tuple[int, int]) -> None:
    """After a full disk has room again the first line says how many are missing."""
    reader, writer = pipe
    full = os.open("/dev/full", os.O_WRONLY)
    outlet = Outlet(full, told)
    for _ in range(3):
        outlet.write("no room\n")
    outlet.drain(5)
    os.dup2(writer, full)
    outlet.write("room\n")
    assert read_until(reader, "room\n") == "lost 3\nroom\n"
    os.close(full)


def test_a_descriptor_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    """Somebody who shares it may have made it non-blocking: no line is lost by that."""
    reader, writer = pipe
    os.set_blocking(writer, False)
    outlet = Outlet(writer, told)
    lines = [f"{n}\n" * 100 for n in range(100)]
    for line in lines:
        outlet.write(line)
    assert read_until(reader, lines[-1]) == "".join(lines)
