"""SIGKILL at random moments while writers run: nothing acknowledged or seen is lost or torn."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from boilerhouse.embedded.apiserver.storage.store import Store
from tests.faults.ledger import Ledger


@pytest.fixture
def launcher() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.launcher"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def run_and_kill(
    launcher: subprocess.Popen[str], directory: Path, run: int, rng: random.Random
) -> list[list[object]]:
    """Let one workload live for a moment, kill it, and return what it told."""
    told = directory.with_name(f"told-{run}")
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(json.dumps([str(directory), run, rng.random(), str(told)]) + "\n")
    pid = int(launcher.stdout.readline())
    # Some die while they open the store, most in the middle of their work, however slow it is.
    enough = rng.choice((0, rng.randrange(4_000), rng.randrange(40_000)))
    until = time.monotonic() + 10
    while enough and _size(told) < enough and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.02))
    os.kill(pid, signal.SIGKILL)
    assert launcher.stdout.readline() == "gone\n"
    if not told.exists():
        return []
    lines = told.read_bytes().split(b"\n")
    told.unlink()
    return [json.loads(line) for line in lines[:-1]]  # the last one is empty, or was cut


def _size(told: Path) -> int:
    return told.stat().st_size if told.exists() else 0


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(100, marks=pytest.mark.slow),
        pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_no_acknowledged_or_seen_write_is_lost_when_the_process_is_killed(
    launcher: subprocess.Popen[str], tmp_path: Path, kills: int
) -> None:
    """After each kill the store has every acknowledged write, no half ones, and no used revision.

    Half of the time the next process finds the files as the dead one left them; the other half the
    test opens them first and compares.
    """
    rng = random.Random(kills)
    ledger = Ledger()
    directory = tmp_path / "data"
    for run in range(1, kills + 1):
        for line in run_and_kill(launcher, directory, run, rng):
            ledger.hear(line)
        if rng.random() < 0.5 or run == kills:
            store = await Store.open(directory, history=400)
            problems = await ledger.check(store)
            await store.close()
            assert problems == [], f"after kill {run}"
    # The run was worth something only if the children got to work.
    assert ledger.acknowledged > 20 * kills
    assert ledger.seen > 20 * kills
