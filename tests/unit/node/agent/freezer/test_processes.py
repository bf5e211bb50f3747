"""Finding the tenant's processes in a Pod, and halting them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from boilerhouse.node.agent.freezer.processes import PodProcesses, Process
from tests.absence import absent
from tests.unit.node.agent.freezer.pod_program import STORIES

ROOT = Path(__file__).parents[5]


def process(
    proc: Path, pid: int, parent: int, *, state: str = "S (sleeping)", ids: int = 0
) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(
        f"Name:\tx\nState:\t{state}\nPid:\t{pid}\nPPid:\t{parent}\n"
        f"Uid:\t{ids}\t{ids}\t{ids}\t{ids}\nGid:\t{ids}\t{ids}\t{ids}\t{ids}\n"
    )


def test_everything_but_pause_and_agent_is_the_tenants(tmp_path: Path) -> None:
    """Pause, the agent and its children are left out; orphans, late comers and execs are not."""
    me = os.getpid()
    process(tmp_path, 1, 0)
    process(tmp_path, me, 0)
    process(tmp_path, me + 1, me)
    process(tmp_path, me + 2, me + 1)
    process(tmp_path, me + 30, 0, ids=1000)  # the tenant's container
    process(tmp_path, me + 31, me + 30, ids=1001)
    process(tmp_path, me + 32, 1, ids=1000)  # an orphan: pause is its parent now
    process(tmp_path, me + 33, me + 30, state="Z (zombie)")
    (tmp_path / str(me + 34)).mkdir()  # ended while we looked
    (tmp_path / "self").mkdir()
    assert PodProcesses(tmp_path).of_tenant() == [
        Process(me + 30, 1000, 1000),
        Process(me + 31, 1001, 1001),
        Process(me + 32, 1000, 1000),
    ]


@pytest.mark.processes
def test_on_a_real_proc() -> None:
    """The kernel's own files are understood; a child of ours is the agent's, our parent is not."""
    with subprocess.Popen(["sleep", "60"]) as child:
        found = {process.pid for process in PodProcesses().of_tenant()}
        child.kill()
    assert os.getppid() in found or os.getppid() == 1
    assert child.pid not in found
    assert os.getpid() not in found


@pytest.fixture(scope="module")
def namespace() -> list[str]:
    """How to run a command as the first process of a process namespace."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"]).returncode:
        absent("halting processes needs `unshare` and the right to make process namespaces")
    return command


@pytest.mark.processes
@pytest.mark.parametrize("story", STORIES)
def test_in_a_process_namespace(namespace: list[str], story: str) -> None:
    """What is halted stands still however it forks, goes on after, and never stays half halted."""
    command = [*namespace, sys.executable, "-m", "tests.unit.node.agent.freezer.pod_program", story]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
