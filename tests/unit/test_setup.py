"""`make setup` where the network has certificates of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLEAN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(shutil.which("make") is None, reason="needs make"),
]


def asked(question: str, **environ: str) -> str:
    """Return what a recipe of the Makefile sees."""
    command = ["make", "--silent", "--eval", f"asked: ; @echo {question}", "asked"]
    done = subprocess.run(
        command, cwd=ROOT, env=CLEAN | environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_uv_trusts_what_the_system_trusts() -> None:
    """A company's authority is in the system's store; whoever says otherwise is heard."""
    assert asked("$$UV_SYSTEM_CERTS") == "true"
    assert asked("$$UV_SYSTEM_CERTS", UV_SYSTEM_CERTS="false") == "false"
    assert asked("$$SSL_CERT_FILE", SSL_CERT_FILE="/my/ca.pem") == "/my/ca.pem"


def test_an_older_pip_is_given_the_same(tmp_path: Path) -> None:
    """The bundle that was named, else the system's."""
    assert asked("$(CA_BUNDLE)", SSL_CERT_FILE="/my/ca.pem") == "/my/ca.pem"
    found = asked("$(CA_BUNDLE)")
    assert not found or Path(found).is_file()


@pytest.mark.parametrize("trusts", ["", "bundle"])
def test_pip_is_tried_with_the_bundle_if_it_fails_without(tmp_path: Path, trusts: str) -> None:
    """What it says is shown only if neither way works."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncase "$*" in *venv*) mkdir -p .tools/bin; cp pip .tools/bin/pip;; esac\n'
    )
    pip = tmp_path / "pip"
    pip.write_text(
        '#!/bin/sh\necho "cert=$PIP_CERT" >> calls\n'
        f'test "$PIP_CERT" = "{trusts or "never"}" ||'
        ' { echo "certificate unknown" >&2; exit 1; }\n'
        "touch .tools/bin/uv\n"
    )
    for program in (python, pip):
        program.chmod(0o755)
    done = subprocess.run(
        ["make", "--silent", f"PYTHON={python}", ".tools/bin/uv"],
        cwd=tmp_path, env=CLEAN | {"SSL_CERT_FILE": "bundle"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (tmp_path / "calls").read_text() == "cert=\ncert=bundle\n"
    assert (done.returncode == 0) == bool(trusts), done.stderr
    assert ("certificate unknown" in done.stderr) == (not trusts)
