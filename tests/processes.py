"""Tests that use real processes: which they are, and what they leave behind.

folder, `real`, `node` or the marker itself ─► `processes` ─► not in `make check`, a second try
                                                              in `make test`
a test without it that starts a process     ─► fails, and says so
the end of the session                      ─► processes of this run that still live: it fails

A process of this run is known by a variable of its environment, which all that it starts inherit,
or by being a child; pytest's own variable tells which test started it. What ends by itself has a
few seconds to do so. A pytest that a test starts is a run of its own.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

FOLDERS = {"e2e", "faults", "security"}  # below tests: every test of these
_MARKS = ("processes", "real", "node")
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
_VARIABLE = "BOILERHOUSE_TEST_RUN"
_TEST = "PYTEST_CURRENT_TEST="
_TO_END = 10.0  # seconds

_TESTS = Path(__file__).parent
_PROPERTY = "processes"


class _Started:
    """What the test that runs now has started. An audit hook cannot be taken away again."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in _STARTS:
            what = arguments[1] if event == "subprocess.Popen" else ""
            self.commands.append(f"{event} {what}".rstrip())


_STARTED = pytest.StashKey[_Started]()


def marked(item: pytest.Item) -> bool:
    """Whether a test uses real processes."""
    return item.get_closest_marker("processes") is not None


def second_try(report: pytest.TestReport) -> bool:
    """Whether a test that failed is tried once more, as its report says, also a worker's."""
    return (_PROPERTY, True) in report.user_properties


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STARTED] = _Started()
    if not _is_worker(config):
        os.environ[_VARIABLE] = uuid.uuid4().hex


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in FOLDERS or any(item.get_closest_marker(mark) for mark in _MARKS):
            item.add_marker(pytest.mark.processes)
            item.user_properties.append((_PROPERTY, True))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_STARTED].commands.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    answer = yield
    commands = item.config.stash[_STARTED].commands
    if commands and not marked(item):
        pytest.fail(f"it starts a process, so mark it `processes`: {commands[0]}", pytrace=False)
    return answer


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    answer = yield  # workers end in here
    if _is_worker(session.config):
        return answer
    if lasting := left(os.environ[_VARIABLE]):
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        write = terminal.write_line if terminal is not None else print
        write("\nprocesses that tests started and did not end:")
        for pid, which in lasting.items():
            write(f"  {pid} {which}")
        if not session.testsfailed:  # a test that failed may not have come to its end
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return answer


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")  # of pytest-xdist


def left(run: str, patience: float = _TO_END) -> dict[int, str]:
    """Return processes of a run that do not end by themselves: their commands, and whose."""
    until = time.monotonic() + patience
    while (found := dict(_living(run))) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _living(run: str) -> Iterator[tuple[int, str]]:
    above = set(_ancestors())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in above:
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            pairs = (entry / "environ").read_text(errors="replace").split("\0")
            command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
        except OSError:  # it has ended, or is another user's
            continue
        ours = int(parent) == os.getpid() or f"{_VARIABLE}={run}" in pairs
        if ours and state not in "ZX":
            tests = [pair.partition("=")[2] for pair in pairs if pair.startswith(_TEST)]
            yield int(entry.name), f"{command[:200]}  {' '.join(tests)}".rstrip()


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
