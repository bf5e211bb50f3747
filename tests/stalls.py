"""Fails a test whose event loop computed for more than a second in one turn.

every turn of a loop ─► processor time of its thread ─► over 1 s ─► the test fails, with the stack

Judged by the thread's own processor time, so a busy machine fails nothing; less that of garbage
collections, which take longer the more tests this process has run. Tests that hold their loop on
purpose are marked `stalls`. Programs that tests start have the product's own watchdog
(platform/loop/watchdog.py), whose lines are read by what starts them.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from boilerhouse.platform.loop.watchdog import places

STALL_SECONDS = 1.0  # seconds of processor time
LOOK = 0.1  # seconds between two looks for the stack


@dataclass
class _Turn:
    """One turn of a loop that has not ended."""

    thread: int
    clock: int
    since: float
    collecting: float = 0.0  # when the garbage collection that is under way began
    collected: float = 0.0  # seconds of garbage collections
    stack: str = ""


class Turns:
    """The turns of all loops of asyncio in this process, and those that took too long."""

    def __init__(self) -> None:
        self.long: list[str] = []
        self.allowed = False  # a frame that is looked at keeps alive all that its function has
        self._going: dict[int, _Turn] = {}
        self._run_once = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]
        self._stopping = threading.Event()

    def begin(self) -> None:
        turns = self

        def run_once(loop: Any) -> None:
            turns.run(loop)

        asyncio.BaseEventLoop._run_once = run_once  # type: ignore[attr-defined]
        gc.callbacks.append(self._collect)
        threading.Thread(target=self._look, name="stalls", daemon=True).start()

    def end(self) -> None:
        asyncio.BaseEventLoop._run_once = self._run_once  # type: ignore[attr-defined]
        gc.callbacks.remove(self._collect)
        self._stopping.set()

    def run(self, loop: Any) -> None:
        thread = threading.get_ident()
        turn = _Turn(thread, time.pthread_getcpuclockid(thread), time.thread_time())
        self._going[thread] = turn
        try:
            self._run_once(loop)
        finally:
            took = time.thread_time() - turn.since - turn.collected
            self._going.pop(thread, None)
            if took > STALL_SECONDS:
                self.long.append(f"{took:.2f} s of processor time in one turn\n{turn.stack}")

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        turn = self._going.get(threading.get_ident())
        if turn is None:
            return
        if phase == "start":
            turn.collecting = time.thread_time()
        else:
            turn.collected += time.thread_time() - turn.collecting

    def _look(self) -> None:
        while not self._stopping.wait(LOOK):
            for turn in list(self._going.values()):
                try:
                    took = time.clock_gettime(turn.clock) - turn.since - turn.collected
                except OSError:  # the thread has ended
                    continue
                if took > STALL_SECONDS and not turn.stack and not self.allowed:
                    stack = places(sys._current_frames().get(turn.thread))
                    turn.stack = "\n".join(reversed(list(stack)))


_TURNS = pytest.StashKey[Turns]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TURNS] = Turns()
    config.stash[_TURNS].begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_TURNS].end()


def pytest_collection_finish() -> None:
    gc.freeze()  # or each loop would pay for looking through thousands of collected tests


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    turns = item.config.stash[_TURNS]
    turns.long.clear()
    turns.allowed = item.get_closest_marker("stalls") is not None
    answer = yield
    if turns.long and not turns.allowed:
        pytest.fail(f"the event loop stalled: {turns.long[0]}", pytrace=False)
    return answer
