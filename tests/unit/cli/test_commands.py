"""The command line: help, version, generated files, where data goes."""

from __future__ import annotations

import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from boilerhouse.cli.app import app
from boilerhouse.operator import catalogue
from boilerhouse.run import logs

ROOT = Path(__file__).parents[3]


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def test_help_names_every_command(runner: CliRunner) -> None:
    """A bare `boilerhouse` and `--help` both say what can be done."""
    for arguments in ([], ["--help"], ["-h"]):
        output = runner.invoke(app, arguments).output
        assert all(name in output for name in ("up", "gen", "version"))


LINES = [
    *("apply", "get", "claim", "release", "exec", "logs", "why", "idle", "up", "operator", "api"),
    *("gen", "image ls", "image import", "image rm"),
    *("snapshot ls", "snapshot get", "snapshot put", "snapshot rm", "snapshot restore"),
]


@pytest.mark.parametrize("line", LINES)
def test_help_speaks_of_things_and_not_of_types(runner: CliRunner, line: str) -> None:
    """`TENANT` and `FILE`, not `{tenant}` and `<list[str]>`."""
    output = runner.invoke(app, [*line.split(), "--help"]).output
    assert not re.search(r"[{}]|<(?!=|text|table)|\b(str|int|float)\b", output), output


def test_version_is_the_installed_one(runner: CliRunner) -> None:
    """`boilerhouse version` and `boilerhouse --version` print the same line."""
    command, option = (runner.invoke(app, [word]) for word in ("version", "--version"))
    assert (command.exit_code, command.output.split()[0]) == (0, "boilerhouse")
    assert (option.exit_code, option.output) == (0, command.output)


@pytest.mark.processes
def test_the_program_starts_as_a_module() -> None:
    """`python -m boilerhouse.main` is the same program; a wrong option is exit code 2."""
    done = subprocess.run(
        [sys.executable, "-m", "boilerhouse.main", "up", "--nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--nonsense" in done.stderr


INTERRUPTED = """
import os, signal, sys
module, sys.argv = sys.argv[1], ["boilerhouse", *sys.argv[2:]]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from boilerhouse.main import main
main()
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("typer", "snapshot ls"),
        ("structlog", "snapshot ls"),
        ("boilerhouse.cli.app", "snapshot ls"),
        ("httpx2", "snapshot ls"),
        ("boilerhouse.run.up", "up"),
        ("uvloop", "up --port 0"),
    ],
)
def test_a_key_while_it_still_imports(module: str, words: str) -> None:
    """Ctrl-C is exit code 130 and no word, however early it comes."""
    line = [sys.executable, "-c", INTERRUPTED, module, *words.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
def test_generated_files_are_written_and_then_fresh(runner: CliRunner, tmp_path: Path) -> None:
    """gen writes what is missing, says so, and --check agrees afterwards."""
    (tmp_path / "pyproject.toml").touch()
    root = ["--root", str(tmp_path)]
    stale = runner.invoke(app, ["gen", "--check", *root])
    assert stale.exit_code == 1
    assert all(f"stale: {path}" in stale.output for path in catalogue.generated())
    assert not (tmp_path / "config").exists()
    assert runner.invoke(app, ["gen", *root]).exit_code == 0
    for path, text in catalogue.generated().items():
        assert (tmp_path / path).read_text() == text
    assert runner.invoke(app, ["gen", "--check", *root]).exit_code == 0
    path = next(iter(catalogue.generated()))
    (tmp_path / path).write_text("edited by hand")
    assert f"stale: {path}" in runner.invoke(app, ["gen", "--check", *root]).output


def test_generated_files_are_only_written_into_the_repository(
    runner: CliRunner, tmp_path: Path
) -> None:
    """Elsewhere gen refuses instead of littering."""
    result = runner.invoke(app, ["gen", "--root", str(tmp_path)])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_repository_is_fresh(runner: CliRunner) -> None:
    """What is committed is what the models say."""
    result = runner.invoke(app, ["gen", "--check", "--root", str(ROOT)])
    assert result.exit_code == 0, result.output


def test_an_empty_data_directory_is_not_the_current_one(runner: CliRunner) -> None:
    """An unset variable in a script must not fill whatever directory it runs in."""
    result = runner.invoke(app, ["up", "--data", ""])
    assert result.exit_code == 2
    assert "it is empty" in result.output


def test_a_user_whom_nobody_knows_is_told_so(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No HOME and no entry in the user database is one sentence and exit code 1."""

    def unknown(number: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(logs, "configure", lambda: None)  # it would stay for the other tests
    assert runner.invoke(app, ["up"]).exit_code == 1
    logs.drain()
    errors = capfd.readouterr().err
    assert errors.count("\n") == 1
    assert "set HOME, or use --data" in errors


@pytest.mark.processes
def test_a_start_does_not_pay_for_what_it_does_not_use() -> None:
    """What takes long to import is imported by the command that needs it; rich stays usable."""
    code = (
        "import sys; from boilerhouse.run.startup import import_structlog_alone;"
        "import_structlog_alone(); import boilerhouse.run.up;"
        "heavy = {'rich', 'cryptography', 'cel', 'typer', 'pydantic'};"
        "print(sorted(heavy & set(sys.modules))); import rich"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
