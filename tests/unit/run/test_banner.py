"""What `up` prints: the right address, that a key is needed, a command that is found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from boilerhouse.run.banner import Served, banner, own_command

SERVED = Served(
    host="127.0.0.1",
    api="http://127.0.0.1:3000",
    key=False,
    kube="https://127.0.0.1:6443",
    socket=Path("/d/kube.sock"),
    kubeconfig=Path("/d/my files/kubeconfig"),
    directory=Path("/d"),
)


def test_on_loopback_no_key_is_spoken_of() -> None:
    """Whoever can connect may call; what is to be copied is quoted."""
    text = banner(SERVED, "boilerhouse")
    assert "KEY" not in text and "every other" not in text
    assert "export KUBECONFIG='/d/my files/kubeconfig'\n" in text
    assert "\n  boilerhouse get workloads\n" in text


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_open_to_the_network(host: str) -> None:
    """It says so, and that callers need the key."""
    text = banner(replace(SERVED, host=host, key=True), "boilerhouse")
    assert "every other address of this machine" in text
    assert "callers need the key" in text
    assert "export BOILERHOUSE_API_KEY=…" in text
    text = banner(replace(SERVED, host="10.1.2.3", api="http://10.1.2.3:3000", key=True), "x")
    assert "every other" not in text and "http://10.1.2.3:3000" in text


def test_what_the_machine_lacks_is_said() -> None:
    """Each in a line of its own, before the last one."""
    text = banner(replace(SERVED, notes=("no limits here", "no network")), "boilerhouse")
    assert "\n\nNote: no limits here\n\nNote: no network\n\nStop it" in text


def test_the_command_is_one_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name where the shell finds it, else where it lies, else by way of Python."""
    program = tmp_path / "boilerhouse"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command() == "boilerhouse"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(program), "up"])
    assert own_command() == str(program)
    monkeypatch.setattr(sys, "argv", ["/x/main.py", "up"])
    assert own_command() == f"{sys.executable} -m boilerhouse.main"
