"""Ctrl-C and SIGTERM as a terminal and a supervisor send them: to the whole process group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import SystemClock
from tests.absence import absent, sandbox_unavailable
from tests.e2e.snapshots_fixture import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SPEC = {
    "version": "1",
    "image": {"ref": "host"},
    "resources": {"vcpus": 0.1, "memoryMb": 64, "diskGb": 1},
    "network": {"access": "none"},
    "entrypoint": {"cmd": "/bin/sh", "args": ["-c", "while :; do sleep 1; done"]},
    "filesystem": {"overlayDirs": ["/workspace"]},
}


@pytest.fixture
async def sandboxes(tmp_path: Path) -> None:
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")


def start(data: Path, errors: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "boilerhouse.main", "up", "--data", str(data)]
    with errors.open("wb") as file:
        return subprocess.Popen(
            [*command, "--port", "0", "--kube-port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=file,
            process_group=0,
        )


@contextmanager
def up(data: Path, errors: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx2.Client]]:
    process = start(data, errors)
    try:

        def api() -> Any:
            assert process.poll() is None, errors.read_text()
            lines = errors.read_text().splitlines()
            found = (json.loads(one) for one in lines if '"event":"up.serving"' in one)
            return next((one["api"] for one in found), None)

        with httpx2.Client(base_url=f"{soon('it serves', api)}/api/v1", timeout=60) as http:
            yield process, http
    finally:
        process.kill()
        process.wait()


def run(http: httpx2.Client, tenant: str, script: str) -> str:
    """Claim, and run a script in the instance."""
    made = http.post(f"/tenants/{tenant}/claim", json={"workload": "box"}, params={"wait": 60})
    assert made.status_code in (200, 201), made.text
    command = {"command": ["sh", "-c", script]}
    done = http.post(f"/instances/{made.json()['instanceId']}/exec", json=command)
    assert done.json()["exitCode"] == 0, done.text
    said: str = done.json()["stdout"]
    return said


def descendants(pid: int) -> set[tuple[int, str]]:
    """Return all processes below one, each by its number and when it was started."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    found: set[tuple[int, str]] = set()
    below = [pid]
    while below:
        children = parents.get(below.pop(), [])
        found.update(children)
        below += [child for child, _ in children]
    return found


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_there(process: tuple[int, str]) -> bool:
    fields = _fields(process[0])
    return bool(fields) and fields[19] == process[1] and fields[0] != "Z"


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_ends_everything_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Exit code 0, no traceback, no process left; the next start has every file."""
    data, errors = tmp_path / "data", tmp_path / "stderr"
    with up(data, errors) as (process, http):
        assert http.put("/workloads/box", json={"spec": SPEC}).status_code == 201
        run(http, "ann", "echo saved > /workspace/note")
        body = {"workload": "box"}
        gone = http.post("/tenants/ann/release", json=body, params={"wait": 60})
        assert gone.json()["phase"] == "Released", gone.text
        run(http, "bob", "echo running > /workspace/note")
        children = descendants(process.pid)
        assert len(children) >= 4, "fork server, stem, and bob's"
        os.killpg(process.pid, number)
        assert process.wait(30) == 0, errors.read_text()
        soon("all of them are gone", lambda: not any(map(is_there, children)), 10)
        text = errors.read_text()
        assert "Traceback" not in text and "KeyboardInterrupt" not in text, text
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line for line in lines if line["level"] == "error"] == []
        assert lines[-1]["event"] == "up.stopped"
        (stopping,) = (line for line in lines if line["event"] == "up.stopping")
        assert "Ctrl-C" in stopping["hurry"]
    with up(data, errors) as (process, http):
        assert run(http, "ann", "cat /workspace/note") == "saved\n"
        assert run(http, "bob", "cat /workspace/note") == "running\n"


def test_ctrl_c_while_it_starts_is_quiet(tmp_path: Path) -> None:
    """At whatever moment: no traceback of ours, and nothing that keeps the next start away."""
    errors = tmp_path / "stderr"
    clock = SystemClock()
    codes = set()
    for step in range(1, 7):
        process = start(tmp_path / "data", errors)
        began = clock.monotonic()
        soon("it runs", lambda: clock.monotonic() - began > 0.3 * step, 10)  # noqa: B023
        os.killpg(process.pid, signal.SIGINT)
        codes.add(process.wait(30))
        # What Python itself is interrupted in, before it has come to our code, is not ours.
        assert "/boilerhouse/" not in errors.read_text(), errors.read_text()
    assert codes <= {0, 130, -signal.SIGINT}
