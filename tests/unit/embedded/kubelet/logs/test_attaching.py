"""Listening to a container: what comes from now on, and, for the first, what came before."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.kubelet.logs.attaching import Tap, Tapped
from boilerhouse.embedded.kubelet.logs.log import LogFile


@pytest.fixture
async def log(tmp_path: Path) -> Tapped:
    return Tapped(LogFile(tmp_path / "0.log", FakeClock(), file_bytes=64 << 10))


async def heard(tap: Tap) -> dict[str, bytes]:
    got = {"stdout": b"", "stderr": b""}
    async with asyncio.timeout(20):
        while (piece := await tap.read()) is not None:
            got[piece[0]] += piece[1]
    return got


async def test_the_first_hears_what_was_said_before(log: Tapped) -> None:
    """Of a container that has ended, too; any bytes, both streams, a line without an end."""
    said = b"\xff\0\r\n\n" + "é\u2028\n".encode()
    log.write("stdout", said)
    log.write("stderr", b"oh\n")
    log.write("stdout", b"prompt> ")
    first = log.open(from_start=True)
    later = log.open(from_start=True)
    log.write("stdout", b"typed\n")
    log.close()
    assert await heard(first) == {"stdout": said + b"prompt> typed\n", "stderr": b"oh\n"}
    assert await heard(later) == {"stdout": b"typed\n", "stderr": b""}


async def test_after_the_end_all_of_it_is_heard(log: Tapped) -> None:
    """`kubectl run -i --rm … echo`: the client comes when everything is over."""
    log.write("stdout", b"hello\n")
    log.close()
    assert await heard(log.open(from_start=True)) == {"stdout": b"hello\n", "stderr": b""}


async def test_an_old_container_is_heard_from_now_on(log: Tapped) -> None:
    """As `kubectl attach` to a server has it: its log is what `kubectl logs` is for."""
    log.write("stdout", b"old\n")
    tap = log.open(from_start=False)
    log.write("stdout", b"new\n")
    log.close()
    assert await heard(tap) == {"stdout": b"new\n", "stderr": b""}


async def test_no_byte_is_heard_twice_or_never_wherever_listening_begins(log: Tapped) -> None:
    """The writer's thread goes on all the while, and the log is rotated."""
    lines = [b"line %d\n" % number for number in range(2000)]
    begin = threading.Event()

    def write() -> None:
        for number, line in enumerate(lines):
            log.write("stdout", line)
            if number == 200:
                begin.set()
        log.close()

    writer = threading.Thread(target=write)
    writer.start()
    await asyncio.to_thread(begin.wait)
    tap = await asyncio.to_thread(log.open, from_start=True)
    got = await heard(tap)
    await asyncio.to_thread(writer.join)
    assert got["stdout"] == b"".join(lines)


async def test_a_listener_that_does_not_read_loses_the_oldest(log: Tapped) -> None:
    """What waits for it is bounded by bytes, not by pieces."""
    tap = Tap(None, ended=False)
    for number in range(100_000):
        tap.put("stdout", b"%6d\n" % number)
    for _ in range(9):
        tap.put("stdout", bytes(1 << 20))
    tap.end()
    assert len((await heard(tap))["stdout"]) == 8 << 20
