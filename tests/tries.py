"""What failed in a lane, for the second try: of tests that use real processes, and of no others.

--failed FILE ─► nodeid: whether it is tried once more     --second-try ─► only those are run
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import marked, second_try

_FAILED = pytest.StashKey[dict[str, bool]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed", type=Path, help="write down which tests failed")
    parser.addoption("--second-try", action="store_true", help="run tests with processes alone")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FAILED] = {}
    config.pluginmanager.register(_Recorder(config.stash[_FAILED]))


class _Recorder:
    """Hears of every test that failed, in whichever phase and process."""

    def __init__(self, failed: dict[str, bool]) -> None:
        self._failed = failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = second_try(report)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--second-try"):
        config.hook.pytest_deselected(items=[item for item in items if not marked(item)])
        items[:] = [item for item in items if marked(item)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--failed")
    if file is not None and not hasattr(session.config, "workerinput"):
        file.write_text(json.dumps(session.config.stash[_FAILED]))
