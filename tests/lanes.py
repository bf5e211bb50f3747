"""Which test runs in which lane of `make test`; the lanes run beside each other.

--lane NAME ─► only folders with tests of the lane are collected ─► the other lanes' are left out

The node's stories mostly wait for it, so they have a lane to themselves. The others are split by
folder, such that each lane takes about as long. Two that compute and one that waits fill two
cores, so no lane is split any further: the real API server and the node are started once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

NODE = "node"
PROCESSES = "processes"
REST = "rest"
LANES = (NODE, PROCESSES, REST)

_TESTS = Path(__file__).parent
_STORIES = "e2e"  # the only folder with stories of the node
_PROCESSES = {_STORIES, "faults", "security"}


def lane_of(folder: str, on_node: bool) -> str:
    """Tell where a test runs: by its folder below `tests`, and whether it needs the node."""
    if on_node and folder != _STORIES:
        raise pytest.UsageError(f"tests/{folder}: tests on the node belong into tests/{_STORIES}")
    if on_node:
        return NODE
    return PROCESSES if folder in _PROCESSES else REST


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, help="run the tests of one lane of `make test`")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    lane = config.getoption("--lane")
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if lane is None or named or collection_path.parent != _TESTS or collection_path.is_file():
        return None
    folder = collection_path.name
    wanted = lane == lane_of(folder, False) or (lane == NODE and folder == _STORIES)
    return None if wanted else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lane = config.getoption("--lane")
    if lane is None:
        return
    here: list[pytest.Item] = []
    elsewhere: list[pytest.Item] = []
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        on_node = item.get_closest_marker("node") is not None
        (here if lane_of(folder, on_node) == lane else elsewhere).append(item)
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = here
