"""Disks that get full soon."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


@pytest.fixture
def file_limit() -> Iterator[Any]:
    """Lets a test cap the size of files, and lifts the cap: a full disk that needs no root."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft if size is None else size, hard))

    yield limit
    limit(None)
    signal.signal(signal.SIGXFSZ, before)


@contextmanager
def loop_disk(directory: Path, size: int, *options: str) -> Iterator[Path]:
    """An ext4 of its own in a file, all of it for everybody; `options` are of mkfs."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    file, mounted = directory / "disk.img", directory / "disk"
    with file.open("wb") as made:
        made.truncate(size)
    mounted.mkdir()
    make = ["mkfs.ext4", "-q", "-m", "0", *options, str(file)]
    mount = ["mount", "-o", "loop", str(file), str(mounted)]
    for command in (make, mount):
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip(f"there is no {command[0]} on this machine")
        if done.returncode != 0:
            pytest.skip(f"this machine cannot do it: {' '.join(command)}: {done.stderr}")
    try:
        yield mounted
    finally:
        # What was killed may take a moment to be gone.
        while subprocess.run(["umount", str(mounted)], check=False).returncode != 0:
            subprocess.run(["sleep", "0.2"], check=True)
        file.unlink()
