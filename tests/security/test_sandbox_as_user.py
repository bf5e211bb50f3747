"""The same tests once more as an ordinary user, when they are run by root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

UID = 4321
SUITES = ["walls", "life", "terminal", "freezer", "network", "images"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
@pytest.mark.parametrize("suite", SUITES)
def test_everything_holds_for_an_ordinary_user(suite: str) -> None:
    """Without root's powers containers work, and hold, as they do with them."""
    place = tempfile.mkdtemp()
    os.chown(place, UID, UID)
    try:
        command = [sys.executable, "-m", "tests.security.ordinary", str(UID)]
        command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--basetemp={place}/tests", f"tests/security/test_sandbox_{suite}.py"]
        root = Path(__file__).parents[2]
        told = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=110)
        assert told.returncode == 0, told.stdout[-5000:] + told.stderr[-2000:]
    finally:
        shutil.rmtree(place, ignore_errors=True)
