"""README.md as a newcomer follows it: `make up`, then every command of it, with what it prints.

```console blocks ─► `$ command`, expected lines ─► bash ─► compared

In what is expected `…` is anything, and columns may have any width. `"INSTANCE"` is an instance's
name, which INSTANCE stands for in the commands that follow.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from boilerhouse.core.clock import SystemClock
from tests.absence import absent, sandbox_unavailable
from tests.e2e import kubectl

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
_ADDRESS = "http://localhost:3000"
_PATIENCE = 60.0  # seconds, until a `get` shows what is written
_NOT_OURS = (
    "XDG_DATA_HOME",
    "KUBECONFIG",
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "BOILERHOUSE_API_KEY",
)


class Example(NamedTuple):
    """A command of a page, and what it is said to print."""

    command: str
    printed: str


def examples(page: str) -> list[Example]:
    """Return the commands of all console blocks, in order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        first, *commands = re.split(r"^\$ ", block, flags=re.MULTILINE)
        assert first == "", f"a console block begins with `$ `: {block}"
        found += [Example(*text.split("\n", 1)) for text in commands]
    return found


def expected(printed: str) -> re.Pattern[str]:
    """Return what output looks like that agrees with a page."""
    text = re.escape(_narrow(printed)).replace("…", ".*?")
    return re.compile(text.replace('"INSTANCE"', '"(?P<instance>[^"]+)"'), re.DOTALL)


def _narrow(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))


@contextmanager
def made_up(env: dict[str, str], log: Path) -> Iterator[dict[str, str]]:
    """`make up` until Ctrl-C; yields the variables that it says to export."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            ["make", "up", "ARGS=--port 0 --kube-port 0"],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # a terminal's Ctrl-C is for make and all it started
        )
    assert process.stdout is not None
    try:
        said: dict[str, str] = {}
        for line in process.stdout:
            if export := re.match(r" *export (\w+)=(.*)", line):
                said[export[1]] = export[2]
            if line.startswith("Stop it with Ctrl-C"):
                break
        else:
            pytest.fail(f"`make up` ended with {process.wait()}: {log.read_text()}")
        yield said
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
        assert "Traceback" not in log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.mark.processes
@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    """From `make up` to a request that wakes a hibernated tenant; and all is there after a stop."""
    home = tmp_path_factory.mktemp("home")
    problems = asyncio.run(sandbox_unavailable(home / "check", SystemClock()))
    if problems:
        absent(f"containers cannot run here: {problems[0]}")
    program = Path(shutil.which("kubectl") or kubectl.binary())
    env = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    env |= {"HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    exports, instance = "", "INSTANCE"

    def run(command: str) -> str:
        line = f"{exports}{command}".replace(_ADDRESS, said["BOILERHOUSE_URL"])
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", line.replace("INSTANCE", instance)],
            cwd=ROOT,
            env=env | {"BOILERHOUSE_URL": said["BOILERHOUSE_URL"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return _narrow(done.stdout)

    with made_up(env, home / "log") as said:
        for command, printed in examples(README):
            if command.startswith("export "):
                exports += f"{command}; "
            output = run(command)
            deadline = SystemClock().monotonic() + _PATIENCE
            while not (match := expected(printed).fullmatch(output)):
                again = " get " in command and SystemClock().monotonic() < deadline
                assert again, f"{command}\n{output}\ninstead of\n{printed}"
                output = run(command)
            instance = match.groupdict().get("instance") or instance
        assert instance != "INSTANCE"
    with made_up(env, home / "log") as said:
        assert "files" in run(".venv/bin/boilerhouse get pools")
        assert "alice" in run(".venv/bin/boilerhouse snapshot ls")


def test_the_page_says_the_best_of_it() -> None:
    """Every console block is run; among them is a proxied request before and after hibernation."""
    commands = [example.command for example in examples(README)]
    asked = [index for index, command in enumerate(commands) if "/proxy/" in command]
    assert len(asked) == 2
    between = examples(README)[asked[0] + 1 : asked[1]]
    assert any("Released" in example.printed for example in between)


@pytest.mark.parametrize(
    ("printed", "output", "agrees"),
    [
        ("hello\n", "hello", True),
        ("hello\n", "hello you", False),
        ("NAME   AGE\n…      2s\n", "NAME AGE\nx 2s", True),
        ("", "", True),
        ("", "more", False),
        ("…\n", "a\nb", True),
        ('{"id":"INSTANCE",…}', '{"id":"inst-1","a":1}', True),
    ],
)
def test_output_is_compared(printed: str, output: str, agrees: bool) -> None:
    """What is printed is compared whole, but for what a page leaves open."""
    assert (expected(printed).fullmatch(output) is not None) == agrees


def test_it_is_short_and_says_first_what_it_is() -> None:
    """The first ten lines say what it is for, who should not use it, Linux, and what is missing."""
    lines = README.splitlines()
    assert len(lines) <= 150
    first = "\n".join(lines[:10])
    for word in ("tenant", "Use it", "Do not", "Linux", "Built", "Not built", "how-it-compares"):
        assert word in first
