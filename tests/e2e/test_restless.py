"""Tenants that would rather not be released, and commands that would rather not end: `up` whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.snapshots_fixture import Home, on_this_machine, soon

pytestmark = pytest.mark.timeout(300)

# Its parent hangs in the kernel until its child has a program of its own or ends: never.
VFORK = """
import ctypes, os, signal
open("/workspace/begun", "w").write("x")
CLONE_VFORK, number = 0x4000, {"x86_64": 56, "aarch64": 220}[os.uname().machine]
ctypes.CDLL(None).syscall(number, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0)
while True:
    signal.pause()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with on_this_machine(tmp_path_factory.mktemp("home")) as made:
        yield made


def test_a_tenant_that_hangs_in_vfork_is_released(home: Home) -> None:
    """It cannot be stopped by a signal; its files are saved, and are there after the next claim."""
    home.workload("vforks", entrypoint={"cmd": "python3", "args": ["-c", VFORK]})
    instance = home.claim("eve", "vforks", "cold")
    soon("it hangs", lambda: home.sh(instance, "cat /workspace/begun || :") == "x" or None)
    home.sh(instance, "echo precious > /workspace/precious")
    saved = home.released("eve", "vforks")
    assert saved is not None and saved["current"]
    again = home.claim("eve", "vforks", "cold+data")
    assert home.sh(again, "cat /workspace/precious") == "precious\n"


def test_a_command_whose_time_is_over_leaves_nothing(home: Home) -> None:
    """Neither what it started in its own session, nor what has begun another."""
    home.workload("calm", entrypoint={"cmd": "sleep", "args": ["100000"]})
    instance = home.claim("max", "calm", "cold")
    script = "setsid sleep 4242 & setsid -f sleep 4242; sleep 4242"
    late = home.ask(
        "POST",
        f"/instances/{instance}/exec",
        {"command": ["sh", "-c", script], "timeoutSeconds": 1},
    )
    assert late.status_code == 504, late.text
    count = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^4242$' || :"
    soon("all have ended", lambda: home.sh(instance, count).strip() == "0" or None, 20)
