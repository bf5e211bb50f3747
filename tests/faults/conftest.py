"""Disks that get full soon."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "small-disk", str(directory)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not allow to mount a small file system")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)
