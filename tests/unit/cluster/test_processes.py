"""Recorded processes: ended by their record, and nobody else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.places import ClusterError
from cluster.processes import Processes, started

pytestmark = pytest.mark.processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path / "run", tmp_path / "logs")
    yield found
    found.stop(*found.names(), grace=0)


def pid_of(processes: Processes, name: str) -> int:
    pid: int = json.loads((processes.run / f"{name}.json").read_text())["pid"]
    return pid


def test_started_and_stopped(processes: Processes) -> None:
    """A process lives apart from us until it is stopped; its record goes with it."""
    processes.spawn("sleeper", ["sleep", "60"])
    pid = pid_of(processes, "sleeper")
    assert processes.alive("sleeper")
    assert os.getsid(pid) == pid
    processes.stop("sleeper")
    assert not processes.alive("sleeper")
    assert started(pid) is None
    assert processes.names() == []


def test_another_run_of_the_tool_can_stop_it(processes: Processes) -> None:
    """The record is enough: whoever reads it can stop the process."""
    processes.spawn("sleeper", ["sleep", "60"])
    pid = pid_of(processes, "sleeper")
    Processes(processes.run, processes.logs).stop("sleeper")
    assert started(pid) is None


def test_one_that_ignores_sigterm(processes: Processes) -> None:
    """After the grace comes SIGKILL."""
    processes.spawn("deaf", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    while "ready" not in processes.tail("deaf"):
        time.sleep(0.01)
    pid = pid_of(processes, "deaf")
    processes.stop("deaf", grace=0.2)
    assert started(pid) is None


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_stranger_with_the_same_pid_is_left_alone(
    processes: Processes, change: dict[str, object]
) -> None:
    """A pid that by now belongs to another process is neither alive nor killed."""
    processes.spawn("sleeper", ["sleep", "60"])
    path = processes.run / "sleeper.json"
    truth = path.read_text()
    path.write_text(json.dumps(json.loads(truth) | change))
    assert not processes.alive("sleeper")
    processes.stop("sleeper", grace=0)
    path.write_text(truth)
    assert processes.alive("sleeper")


def test_a_dead_one_is_reported_with_its_last_words(processes: Processes) -> None:
    """Waiting for something that needs a dead process fails with the end of its log."""
    processes.spawn("brief", ["sh", "-c", "echo last words; exit 3"])
    while processes.alive("brief"):
        time.sleep(0.01)
    with pytest.raises(ClusterError, match="last words"):
        processes.require("brief")
    processes.stop("brief")


def test_stopping_what_never_ran(processes: Processes) -> None:
    """Stopping is about the end, not the way: nothing to stop is fine."""
    processes.stop("nothing", "never")


def test_the_watchman_outlives_its_owner(tmp_path: Path) -> None:
    """When the owner of an API world is killed, what it started is stopped."""
    processes = Processes(tmp_path / "run", tmp_path / "logs")
    processes.spawn("sleeper", ["sleep", "60"])
    watchman = subprocess.Popen(
        [sys.executable, "-m", "cluster.watchman", str(tmp_path)], stdin=subprocess.PIPE
    )
    assert processes.alive("sleeper")
    watchman.communicate(timeout=20)  # closes its input, as the kernel does for a dead owner
    assert not processes.alive("sleeper")
