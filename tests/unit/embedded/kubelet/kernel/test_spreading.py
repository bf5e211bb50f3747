"""Directories that the file system is asked to keep apart."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.kernel.spreading import spread


def marked(directory: Path) -> bool:
    listed = subprocess.run(["lsattr", "-d", directory], capture_output=True, text=True)
    return "T" in listed.stdout.partition(" ")[0]


@pytest.mark.processes
def test_a_directory_is_marked_where_the_file_system_knows_how(tmp_path: Path) -> None:
    """As chattr would; again does no harm. Elsewhere nothing happens."""
    if shutil.which("lsattr") is None:
        pytest.skip("nothing here tells how directories are marked")
    assert not marked(tmp_path)
    known = spread(tmp_path)
    assert spread(tmp_path) is known
    assert marked(tmp_path) is known
    (tmp_path / "below").mkdir()
    assert not marked(tmp_path / "below")


def test_a_file_system_that_does_not_know_it_is_no_trouble() -> None:
    """The kernel's own file systems have no places to spread over."""
    assert spread(Path("/proc")) is False


def test_what_is_not_there_cannot_be_marked(tmp_path: Path) -> None:
    """A mistake of the caller's, and not a matter of the file system."""
    with pytest.raises(FileNotFoundError):
        spread(tmp_path / "missing")
