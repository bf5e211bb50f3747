"""The thread that carries output: whole, in order, and not faster than a log is worth."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Literal

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.kubelet.logs.logpump import Output, Pump


class Heard:
    def __init__(self) -> None:
        self.got = {"stdout": bytearray(), "stderr": bytearray()}
        self.flushed = threading.Event()
        self.closed = threading.Event()
        self.ended = threading.Event()

    def write(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        assert not self.closed.is_set()
        self.got[stream] += data

    def flush(self) -> None:
        self.flushed.set()

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pump(clock: FakeClock) -> Iterator[Pump]:
    made = Pump(clock)
    yield made
    made.close()


def carried(pump: Pump) -> tuple[Heard, Output, int, int]:
    heard = Heard()
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    output = Output({out: "stdout", err: "stderr"}, heard, heard.ended.set)
    pump.add(output)
    return heard, output, their_out, their_err


def test_both_streams_are_carried_to_their_end(pump: Pump) -> None:
    """The log is closed after the last byte of the last stream."""
    heard, _, out, err = carried(pump)
    os.write(out, b"one")
    os.close(out)
    os.write(err, b"two")
    assert not heard.ended.wait(0.05)
    os.close(err)
    assert heard.ended.wait(10)
    assert heard.closed.is_set()
    assert heard.got == {"stdout": b"one", "stderr": b"two"}


def test_a_line_without_an_end_is_shown_after_a_while(pump: Pump, clock: FakeClock) -> None:
    """A prompt is not held back until its answer; a line that is ended needs no such help."""
    heard, _, out, err = carried(pump)
    other, _, their_out, their_err = carried(pump)
    os.write(their_out, b"a whole line\n")
    os.write(out, b"password: ")
    assert not heard.flushed.wait(0.05)
    clock.advance(1)
    assert heard.flushed.wait(10)
    assert not other.flushed.is_set()
    for fd in (out, err, their_out, their_err):
        os.close(fd)


def test_a_stream_that_somebody_keeps_open_can_be_cut(pump: Pump) -> None:
    """A pipe handed to another process does not hold the log open for ever."""
    heard, output, out, err = carried(pump)
    pump.cut(output)
    assert heard.ended.wait(10)
    pump.cut(output)
    for fd in (out, err):
        os.close(fd)


@pytest.mark.slow
def test_a_flood_is_slowed_and_others_are_not(pump: Pump, clock: FakeClock) -> None:
    """Beyond the allowance nothing is read until time has passed; other containers go on."""
    heard, _, out, err = carried(pump)
    flood = threading.Thread(target=_write, args=(out, bytes(6 * 1024 * 1024)))
    flood.start()
    flood.join(1.0)
    assert flood.is_alive()
    assert len(heard.got["stdout"]) < 5 * 1024 * 1024
    other, _, their_out, their_err = carried(pump)
    os.write(their_out, b"still heard")
    for fd in (their_out, their_err):
        os.close(fd)
    assert other.ended.wait(10)
    assert other.got["stdout"] == b"still heard"
    clock.advance(10)
    flood.join(10)
    os.close(err)
    assert heard.ended.wait(10)
    assert len(heard.got["stdout"]) == 6 * 1024 * 1024


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
    os.close(fd)
