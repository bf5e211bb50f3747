"""python -m tests [pytest's arguments]: every test, in lanes beside each other; `make test`.

LANES ─► one pytest each ─► its output, whole ─► what failed once more, by itself ─► the exit code

Each lane has a cache directory of its own, from which its second try knows what failed. The second
tries come when all lanes are through: real processes on a busy machine miss deadlines.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lanes import LANES

_LAST_FAILED = ("--last-failed", "--last-failed-no-failures", "none")
_STILL_RUNNING = 60.0
_FINE = {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


class Lane:
    """One pytest, and what it printed so far."""

    def __init__(self, name: str, arguments: Sequence[str], directory: Path) -> None:
        self.name = name
        self._output = directory / f"{name}.txt"
        self._since = time.monotonic()
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "pytest", "-p", "tests.lanes", "--lane", name,
                    "-o", f"cache_dir=.pytest_cache/{name}", "--basetemp", directory / name,
                    "-m", "not soak", *arguments,
                ],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                process_group=0,  # or Ctrl-C would reach it twice, the second time in a teardown
            )  # fmt: skip

    def printed(self) -> str:
        return self._output.read_text(errors="replace")

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


def run(names: Sequence[str], arguments: Sequence[str]) -> dict[str, int]:
    """Run lanes beside each other, print each when it ends, and return their exit codes."""
    codes: dict[str, int] = {}
    told = time.monotonic()
    with _directory() as directory:
        running = [Lane(name, arguments, directory) for name in names]
        try:
            while running:
                time.sleep(0.2)
                for lane in [one for one in running if one.process.poll() is not None]:
                    running.remove(lane)
                    codes[lane.name] = lane.process.returncode
                    lane.report()
                if running and time.monotonic() - told >= _STILL_RUNNING:
                    told = time.monotonic()
                    print("running:", ", ".join(one.progress() for one in running), flush=True)
        finally:
            _end(running)
    return codes


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


def main(arguments: Sequence[str]) -> int:
    codes = run(LANES, arguments)
    for name in [name for name, code in codes.items() if code == pytest.ExitCode.TESTS_FAILED]:
        print(f"lane {name}: what failed is tried once more, by itself", flush=True)
        again = run([name], [*arguments, *_LAST_FAILED])
        codes[name] = pytest.ExitCode.OK if again[name] == pytest.ExitCode.OK else 1
    if set(codes.values()) == {pytest.ExitCode.NO_TESTS_COLLECTED}:
        return pytest.ExitCode.NO_TESTS_COLLECTED
    bad = [name for name, code in codes.items() if code not in _FINE]
    print("failed: " + ", ".join(bad) if bad else "all lanes passed", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    # An end that is asked for is an end in order, also of a job in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
