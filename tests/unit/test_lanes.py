"""`make test`: every test in one lane, second tries for processes alone, flaky tests counted.

The lanes are tried on a small project of their own: what they say of each test is what counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import flaky

pytestmark = [pytest.mark.slow, pytest.mark.processes]

TESTS = Path(__file__).parents[1]
SETTINGS = """
[pytest]
testpaths = tests
filterwarnings = error
markers =
    node: needs a node
    real: needs an API server
    soak: takes long
    processes: uses real processes
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
    (tmp_path / "tests" / "conftest.py").write_text('pytest_plugins = ["tests.processes"]\n')
    for name in ("__init__", "__main__", "flaky", "lanes", "processes", "tries"):
        shutil.copy(TESTS / f"{name}.py", tmp_path / "tests")
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
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", flaky.VARIABLE: str(project / "kept.txt")},
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
    assert done.stdout.splitlines()[-2:] == ["all lanes passed", "FLAKY 0"]


def test_arguments_reach_every_lane(project: Path) -> None:
    """A name, a path, a mark: lanes without such a test say so and are no failure."""
    done = lanes(project, "-v", "-k", "it", "tests/faults/test_it.py::test_fault", "tests/anything")
    assert (done.returncode, ran(done.stdout)) == (0, ["test_anything", "test_fault"])
    assert "lane node: no test is selected" in done.stdout
    done = lanes(project, "-v", "-m", "soak")
    assert (done.returncode, ran(done.stdout)) == (0, ["test_long"])
    assert lanes(project, "-k", "nonsense").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_what_uses_processes_is_tried_once_more(project: Path) -> None:
    """It alone; both tries are printed, the run ends with its name, and that line is kept."""
    add(project, "faults", FIRST_FAILS, "test_wobbly.py")
    done = lanes(project)
    assert done.returncode == 0, done.stdout
    assert "AssertionError: not yet" in done.stdout
    assert "lane processes: what failed and uses processes is tried once more" in done.stdout
    assert (project / "steady").read_text() == "ran "
    wobbly = "FLAKY 1: tests/faults/test_wobbly.py::test_wobbly"
    assert done.stdout.splitlines()[-2:] == ["all lanes passed", wobbly]
    assert lanes(project).returncode == 0
    kept = (project / "kept.txt").read_text().splitlines()
    assert [line.split(" ", 2)[1:] for line in kept] == [
        ["unknown", wobbly],
        ["unknown", "FLAKY 0"],
    ]


def test_what_uses_none_has_failed(project: Path) -> None:
    """Only a test beside it that is marked is tried once more."""
    add(project, "anything", FIRST_FAILS, "test_wobbly.py")
    marked = FIRST_FAILS.replace("tried", "retried").replace("steady", "calm")
    marked = marked.replace("def test_wobbly", "@pytest.mark.processes\ndef test_wobbly")
    add(project, "anything", "import pytest\n" + marked, "test_marked.py")
    done = lanes(project)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [
        "failed: rest",
        "FLAKY 1: tests/anything/test_marked.py::test_wobbly",
    ]
    assert (project / "steady").read_text() == "ran "


def test_too_many_second_tries_are_a_failure(project: Path) -> None:
    """A suite that passes only by luck is not green."""
    many = FIRST_FAILS.replace("def test_wobbly():", "@pytest.mark.parametrize('n', range(6))\n"
        "def test_wobbly(n):").replace('Path("tried")', "Path(f'tried{n}')")  # fmt: skip
    add(project, "faults", "import pytest\n" + many, "test_wobbly.py")
    done = lanes(project)
    assert done.returncode == 1
    assert "failed: more than 5 tests needed a second try" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("FLAKY 6: tests/faults/test_wobbly.py")


@pytest.mark.parametrize("folder", ["anything", "faults"])
@pytest.mark.parametrize(
    ("text", "why"), [("def test_bad(): assert False\n", "assert False"), ("import no\n", "'no'")]
)
def test_a_failure_is_one(project: Path, folder: str, text: str, why: str) -> None:
    """Of a test that fails twice, and of a file that cannot be read: the lane is named."""
    add(project, folder, text, "test_bad.py")
    done = lanes(project)
    name = {"anything": "rest", "faults": "processes"}[folder]
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [f"failed: {name}", "FLAKY 0"]
    assert why in done.stdout


STARTS = """
import subprocess, sys

def test_it():
    subprocess.{}([sys.executable, "-c", "import time; time.sleep({})"])
"""


def test_a_test_that_starts_a_process_is_marked(project: Path) -> None:
    """Without the mark it would be in `make check`, and fail without a second try."""
    add(project, "anything", STARTS.format("run", 0), "test_starts.py")
    done = lanes(project)
    assert done.returncode == 1
    assert "it starts a process, so mark it `processes`: subprocess.Popen" in done.stdout


def test_what_a_test_starts_it_ends(project: Path) -> None:
    """A process that outlives the session fails it, with its command and its test."""
    add(project, "faults", STARTS.format("Popen", 20), "test_starts.py")
    done = lanes(project, "-W", "ignore")
    assert (done.returncode, done.stdout.splitlines()[-2]) == (1, "failed: processes")
    assert "processes that tests started and did not end:" in done.stdout
    assert "time.sleep(20)  tests/faults/test_starts.py::test_it (call)" in done.stdout


def test_a_node_story_where_its_lane_does_not_look(project: Path) -> None:
    """It would run nowhere: that is refused."""
    add(project, "faults", "import pytest\n\n@pytest.mark.node\ndef test_lost(): pass\n")
    done = lanes(project)
    assert done.returncode == 1
    assert "tests/faults: tests on the node belong into tests/e2e" in done.stdout
