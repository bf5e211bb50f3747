"""python -m tests [pytest's arguments]: every test, in lanes beside each other; `make test`.

LANES ─► one pytest each ─► its output, whole ─► second tries, by themselves ─► FLAKY ─► exit code

Real processes on a busy machine miss deadlines, so a test that uses them is tried once more when
all lanes are through (tests/processes.py says which do); any other test that fails has failed.
Each lane has a cache directory of its own, from which its second try knows what failed.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import flaky
from tests.lanes import LANES

_AGAIN = ("--second-try", "--last-failed", "--last-failed-no-failures", "none")
_STILL_RUNNING = 60.0
_FINE = {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


class Result(NamedTuple):
    """How a lane ended, and which tests failed: those that are tried once more say True."""

    code: int
    failed: dict[str, bool]


class Lane:
    """One pytest, and what it printed so far."""

    def __init__(self, name: str, arguments: Sequence[str], directory: Path) -> None:
        self.name = name
        self._output = directory / f"{name}.txt"
        self._failed = directory / f"{name}.json"
        self._since = time.monotonic()
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "pytest", "-p", "tests.lanes", "--lane", name,
                    "-p", "tests.processes", "-p", "tests.tries", "--failed", self._failed,
                    "-o", f"cache_dir=.pytest_cache/{name}", "--basetemp", directory / name,
                    "-m", "not soak", *arguments,
                ],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                process_group=0,  # or Ctrl-C would reach it twice, the second time in a teardown
            )  # fmt: skip

    def printed(self) -> str:
        return self._output.read_text(errors="replace")

    def result(self) -> Result:
        """Return how it ended; one that was killed has written nothing down."""
        failed = json.loads(self._failed.read_text()) if self._failed.exists() else {}
        return Result(self.process.returncode, failed)

    def progress(self) -> str:
        shares = re.findall(r"\[ *(\d+%)\]$", self.printed(), re.MULTILINE)
        return f"{self.name} {shares[-1] if shares else '0%'}"

    def report(self) -> None:
        """Print everything; of a lane that had nothing to do, only that."""
        if self.process.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
            print(f"lane {self.name}: no test is selected", flush=True)
            return
        minutes, seconds = divmod(round(time.monotonic() - self._since), 60)
        title = f" lane {self.name}: {minutes}:{seconds:02} min "
        print(f"{title:#^80}", self.printed().rstrip(), "", sep="\n", flush=True)


def run(names: Sequence[str], arguments: Sequence[str]) -> dict[str, Result]:
    """Run lanes beside each other, print each when it ends, and return their results."""
    results: dict[str, Result] = {}
    told = time.monotonic()
    with _directory() as directory:
        running = [Lane(name, arguments, directory) for name in names]
        try:
            while running:
                time.sleep(0.2)
                for lane in [one for one in running if one.process.poll() is not None]:
                    running.remove(lane)
                    results[lane.name] = lane.result()
                    lane.report()
                if running and time.monotonic() - told >= _STILL_RUNNING:
                    told = time.monotonic()
                    print("running:", ", ".join(one.progress() for one in running), flush=True)
        finally:
            _end(running)
    return results


@contextmanager
def _directory() -> Iterator[Path]:
    """Have a directory for what the tests write. pytest's own tidies up after other runs.

    Their trees may be deeper than Python can walk: a test that was killed did not remove them.
    """
    path = tempfile.mkdtemp(prefix="bh-tests-")
    try:
        yield Path(path)
    finally:
        subprocess.run(["rm", "-rf", path], check=False)


def _end(lanes: Iterable[Lane]) -> None:
    """End lanes that still run as Ctrl-C would: they take down what they started."""
    for lane in lanes:
        lane.process.send_signal(signal.SIGINT)
    for lane in lanes:
        lane.process.wait()
        lane.report()


def second_try(name: str, first: Result, arguments: Sequence[str]) -> tuple[Result, list[str]]:
    """Try what may be tried once more; return the lane's result then, and what was flaky."""
    again = [test for test, may in first.failed.items() if may]
    if first.code != pytest.ExitCode.TESTS_FAILED or not again:
        return first, []
    print(f"lane {name}: what failed and uses processes is tried once more", flush=True)
    second = run([name], [*arguments, *_AGAIN])[name]
    if second.code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        return second, []
    failed = {test: may for test, may in first.failed.items() if not may} | second.failed
    code = pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK
    return Result(code, failed), [test for test in again if test not in second.failed]


def main(arguments: Sequence[str]) -> int:
    results = run(LANES, arguments)
    codes = {result.code for result in results.values()}
    if codes == {pytest.ExitCode.NO_TESTS_COLLECTED}:
        return pytest.ExitCode.NO_TESTS_COLLECTED
    names: list[str] = []
    for name, first in results.items():
        results[name], more = second_try(name, first, arguments)
        names += more
    bad = [name for name, result in results.items() if result.code not in _FINE]
    print("failed: " + ", ".join(bad) if bad else "all lanes passed", flush=True)
    if len(names) > flaky.MOST:
        print(f"failed: more than {flaky.MOST} tests needed a second try", flush=True)
    flaky.keep(names)
    print(flaky.line(names), flush=True)
    return 1 if bad or len(names) > flaky.MOST else 0


if __name__ == "__main__":
    # An end that is asked for is an end in order, also of a job in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
