"""The kubelet's stories once more as an ordinary user, when they are run by root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

UID = 4322


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
def test_pods_run_for_an_ordinary_user() -> None:
    """Nothing that the stories need takes root's powers, but for the limits."""
    place = tempfile.mkdtemp()
    os.chown(place, UID, UID)
    try:
        command = [sys.executable, "-m", "tests.security.ordinary", str(UID)]
        command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--basetemp={place}/tests", "tests/e2e/test_embedded_kubelet.py"]
        root = Path(__file__).parents[2]
        told = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=280)
        assert told.returncode == 0, told.stdout[-5000:] + told.stderr[-2000:]
    finally:
        shutil.rmtree(place, ignore_errors=True)
