"""The agent as a program: small, and finding its directories by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from boilerhouse.node.agent import layout
from boilerhouse.node.agent.__main__ import overlays
from boilerhouse.tenancy.instances import build

MOUNTINFO = rb"""
1 0 0:1 / / ro,relatime - overlay overlay rw
2 1 0:2 / /run/boilerhouse rw - tmpfs tmpfs rw
3 1 8:1 /pods/u/volumes/o0 /overlay/workspace rw,relatime - ext4 /dev/sda1 rw
4 1 8:1 /pods/u/volumes/o1 /overlay/var/my\040data rw,relatime shared:1 - ext4 /dev/sda1 rw
5 1 8:1 /x /overlaying rw - ext4 /dev/sda1 rw
"""


def test_overlays_are_found_by_their_mounts() -> None:
    """What the Pod mounts under /overlay is what the instance has at the same path without it."""
    assert overlays(MOUNTINFO.strip()) == {
        "/workspace": Path("/overlay/workspace"),
        "/var/my data": Path("/overlay/var/my data"),
    }


def test_the_pod_mounts_what_the_agent_expects() -> None:
    """Whoever builds Pods and the agent agree on where things are."""
    assert layout.IDENTITY_DIR == build.IDENTITY_DIR
    assert str(Path(layout.TOKEN_FILE).parent) == build.AGENT_TOKEN_DIR
    assert layout.STATE_DIR == build.AGENT_STATE_DIR
    assert layout.RESTORE_VARIABLE == build.RESTORE_VARIABLE
    assert layout.DISK_VARIABLE == build.DISK_VARIABLE


@pytest.mark.processes
@pytest.mark.parametrize("program", ["agent", "helper"])
def test_the_small_programs_import_little(program: str) -> None:
    """None of the big libraries is loaded: an agent runs beside every tenant."""
    script = f"import sys, boilerhouse.node.{program}.__main__; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & {"msgspec", "structlog", "litestar", "httpx2", "typer", "rich", "yaml"}
    ours = {name for name in loaded if name.startswith("boilerhouse.")}
    assert {name.split(".")[1] for name in ours} <= {"node", "platform", "core"}


@pytest.mark.processes
@pytest.mark.parametrize("program", ["agent", "snapshot-helper"])
def test_outside_a_pod_they_say_what_is_missing(program: str) -> None:
    """Started by hand, each ends with one sentence instead of a traceback."""
    if Path(layout.TOKEN_FILE).exists():
        pytest.skip("this is a Pod of ours")
    done = subprocess.run(
        [sys.executable, "-m", "boilerhouse.main", program], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("the token cannot be read: ")
    assert len(done.stderr.splitlines()) == 1
