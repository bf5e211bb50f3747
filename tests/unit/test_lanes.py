"""`make test`: every test runs in one lane, a second try is by itself, and the exit code is right.

The lanes are tried on a small project of their own: what they say of each test is what counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
SETTINGS = """
[pytest]
testpaths = tests
markers =
    node: needs a node
    soak: takes long
"""
FIRST_FAILS = """
from pathlib import Path

def test_wobbly():
    tried = Path("tried")
    if not tried.exists():
        tried.touch()
        raise AssertionError("not yet")

def test_steady():
    with Path("steady").open("a") as file:
        file.write("ran ")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our lanes, a test in a folder of each, and one for the node."""
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    marked = "import pytest\n\n@pytest.mark.{}\ndef test_{}(): pass\n"
    add(tmp_path, "e2e", "def test_story(): pass\n")
    add(tmp_path, "e2e", marked.format("node", "on_node"), "test_on_node.py")
    add(tmp_path, "faults", "def test_fault(): pass\n")
    add(tmp_path, "anything", "def test_anything(): pass\n")
    add(tmp_path, "anything", marked.format("soak", "long"), "test_long.py")
    for name in ("__init__.py", "__main__.py", "lanes.py"):
        shutil.copy(TESTS / name, tmp_path / "tests" / name)
    return tmp_path


def add(project: Path, folder: str, text: str, name: str = "test_it.py") -> None:
    directory = project / "tests" / folder
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "__init__.py").touch()
    (directory / name).write_text(text)


def lanes(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the lanes with pytest alone: other plugins have nothing to do here."""
    return subprocess.run(
        [sys.executable, "-m", "tests", *arguments],
        cwd=project,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


def ran(output: str) -> list[str]:
    """Return which tests ran, by what `-v` prints of each."""
    lines = [line.split() for line in output.splitlines() if "::" in line]
    return sorted(words[0].partition("::")[2] for words in lines if words[1] == "PASSED")


def test_every_test_runs_once(project: Path) -> None:
    """In whichever lane; what is left out without lanes is left out."""
    done = lanes(project, "-v")
    assert done.returncode == 0, done.stdout
    assert ran(done.stdout) == ["test_anything", "test_fault", "test_on_node", "test_story"]
    assert done.stdout.splitlines()[-1] == "all lanes passed"


def test_arguments_reach_every_lane(project: Path) -> None:
    """A name, a path, a mark: lanes without such a test say so and are no failure."""
    done = lanes(project, "-v", "-k", "it", "tests/faults/test_it.py::test_fault", "tests/anything")
    assert (done.returncode, ran(done.stdout)) == (0, ["test_anything", "test_fault"])
    assert "lane node: no test is selected" in done.stdout
    done = lanes(project, "-v", "-m", "soak")
    assert (done.returncode, ran(done.stdout)) == (0, ["test_long"])
    assert lanes(project, "-k", "nonsense").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_what_fails_is_tried_once_more(project: Path) -> None:
    """It alone, and both tries are printed."""
    add(project, "faults", FIRST_FAILS, "test_wobbly.py")
    done = lanes(project)
    assert done.returncode == 0, done.stdout
    assert "AssertionError: not yet" in done.stdout
    assert "lane processes: what failed is tried once more" in done.stdout
    assert (project / "steady").read_text() == "ran "


@pytest.mark.parametrize(
    ("text", "why"), [("def test_bad(): assert False\n", "assert False"), ("import no\n", "'no'")]
)
def test_a_failure_is_one(project: Path, text: str, why: str) -> None:
    """Of a test that fails twice, and of a file that cannot be read: the lane is named."""
    add(project, "anything", text, "test_bad.py")
    done = lanes(project)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "failed: rest")
    assert why in done.stdout


def test_a_node_story_where_its_lane_does_not_look(project: Path) -> None:
    """It would run nowhere: that is refused."""
    add(project, "faults", "import pytest\n\n@pytest.mark.node\ndef test_lost(): pass\n")
    done = lanes(project)
    assert done.returncode == 1
    assert "tests/faults: tests on the node belong into tests/e2e" in done.stdout
