"""The node's lock: one run at a time, the next one waits, a dead one is in nobody's way."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import turns
from cluster.places import ClusterError

pytestmark = pytest.mark.processes

HOLDS = """
import sys
from pathlib import Path
from cluster import turns

with turns.taken(print, Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""
ROOT = Path(__file__).parents[3]


@contextmanager
def another_run(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another process that holds the lock until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(lock)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        yield process


def test_the_next_one_waits_and_says_for_whom(tmp_path: Path) -> None:
    """It goes on when the first one is done, not before."""
    lock, lines, waits = tmp_path / "lock", [], threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        waits.set()

    with another_run(lock) as first:
        order: list[str] = []

        def second() -> None:
            with turns.taken(say, lock):
                order.append("second")

        waiting = threading.Thread(target=second)
        waiting.start()
        assert waits.wait(30)
        assert order == []
        assert f"process {first.pid} (" in lines[0] and f"in {ROOT}" in lines[0]
        assert first.stdin is not None
        first.stdin.close()
        waiting.join(30)
        assert order == ["second"]


def test_patience_has_an_end(tmp_path: Path) -> None:
    """The error names who has the node."""
    lock = tmp_path / "lock"
    with another_run(lock) as first:
        with (
            pytest.raises(ClusterError, match=f"used by process {first.pid} .* try again"),
            turns.taken(lambda line: None, lock, patience=0),
        ):
            raise AssertionError("both have it")
        assert first.stdin is not None
        first.stdin.close()


def test_one_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    """The lock goes with its process."""
    lock, lines = tmp_path / "lock", list[str]()
    with another_run(lock) as first:
        first.kill()
        first.wait()
        with turns.taken(lines.append, lock, patience=0):
            assert lines == []


def test_given_back(tmp_path: Path) -> None:
    """The same run can have it again."""
    for _ in range(2):
        with turns.taken(lambda line: None, tmp_path / "lock", patience=0):
            pass
