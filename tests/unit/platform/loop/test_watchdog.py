"""What the watchdog reports of an event loop that stalls, and that it costs next to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from boilerhouse.platform.loop import watchdog
from boilerhouse.platform.loop.watchdog import Heartbeat, Watchdog, watched

pytestmark = [pytest.mark.stalls, pytest.mark.slow]  # on purpose


def _compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _counted() -> float:
    """How many stalls there were, by any cause: this machine may be busy as well."""
    name = "boilerhouse_event_loop_stalls_total"
    causes = ("busy", "blocked", "starved")
    return sum(REGISTRY.get_sample_value(name, {"cause": cause}) or 0 for cause in causes)


@contextlib.contextmanager
def _reports() -> Iterator[list[dict[str, Any]]]:
    """What was logged of stalls, once the context has ended."""
    heard: list[dict[str, Any]] = []
    with capture_logs() as lines:
        yield heard
    heard += [dict(line) for line in lines if line["event"] == "loop.stalled"]


async def test_a_loop_that_computes_is_reported_with_the_stack_and_its_processor_time() -> None:
    """What holds the loop is named while it does, and counted."""
    before = _counted()
    with _reports() as reports, watched():
        await asyncio.sleep(0.1)
        _compute(0.4)
        await asyncio.sleep(0.3)
    [report] = [found for found in reports if "_compute" in found["stack"]]
    assert report["processor_milliseconds"] >= 250
    assert report["milliseconds"] >= 250
    innermost = report["stack"].splitlines()[-1]
    assert innermost.endswith("_compute")
    assert "loop/test_watchdog.py:" in innermost
    assert _counted() >= before + 1


async def test_a_loop_that_waits_for_a_lock_is_blocked_and_the_stack_says_where() -> None:
    with _reports() as reports, watched():
        await asyncio.sleep(0.1)
        threading.Lock().acquire(timeout=0.05)  # not long enough
        threading.Event().wait(0.5)
        await asyncio.sleep(0.3)
    reports = [found for found in reports if "Event.wait" in found["stack"]]
    [report] = reports
    assert report["milliseconds"] >= 300
    assert report["processor_milliseconds"] < report["milliseconds"] / 2


async def test_a_stall_that_does_not_end_is_reported_while_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deadlock of the loop is told although the loop never comes back."""
    monkeypatch.setattr(watchdog, "ENDLESS", 0.3)
    said = threading.Event()
    reports: list[dict[str, Any]] = []

    class Told(Watchdog):
        def _report(self, stall: watchdog.Stall, goes_on: bool) -> None:
            reports.append({"stack": stall.stack, "goes_on": goes_on})
            said.set()

    heartbeat = Heartbeat(asyncio.get_running_loop())
    told = Told(heartbeat)
    told.start()
    assert said.wait(10), "nothing was said while the loop was held"
    assert reports[0]["goes_on"]
    assert any("wait" in line for line in reports[0]["stack"])
    heartbeat.stop()
    told.stop()


async def test_a_process_that_was_starved_is_no_fault_of_the_loop() -> None:
    """A machine without a spare processor delays the watchdog's thread as well."""
    assert watchdog.Stall(2.0, 0.1, 1.9, ()).cause == "starved"
    assert watchdog.Stall(2.0, 1.9, 1.9, ()).cause == "busy"  # a long call holds both of them up
    assert watchdog.Stall(2.0, 0.1, 0.0, ()).cause == "blocked"


async def test_many_stalls_are_counted_and_few_are_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What stalls all the time does not fill the log as well."""
    monkeypatch.setattr(watchdog, "STALL", 0.02)
    before = _counted()
    with _reports() as reports, watched():
        for _ in range(watchdog.LINES + 5):
            await asyncio.sleep(0.06)
            time.sleep(0.1)  # noqa: ASYNC251  the stall
        await asyncio.sleep(0.3)
    assert len(reports) == watchdog.LINES
    assert _counted() >= before + watchdog.LINES + 5


async def test_watching_costs_less_than_half_a_percent_of_a_core() -> None:
    with watched():
        before = time.process_time()
        await asyncio.sleep(2)
        assert time.process_time() - before < 0.005 * 2 * 3, "three times what is promised"


async def test_a_terminal_shows_it_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """The renderer for people takes the stack, and the watchdog lives on."""
    with watched():
        await asyncio.sleep(0.1)
        _compute(0.3)
        await asyncio.sleep(0.3)
        assert any(thread.name == "watchdog" for thread in threading.enumerate())
    assert "loop.stalled" in capsys.readouterr().out


async def test_nothing_is_left_when_watching_ends() -> None:
    with watched():
        assert any(thread.name == "watchdog" for thread in threading.enumerate())
    assert not any(thread.name == "watchdog" for thread in threading.enumerate())
