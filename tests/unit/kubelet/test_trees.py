"""Directories that tenants filled are taken away whatever is in them."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.trees import make_apart, remove_tree


def test_a_closed_directory_is_opened_and_removed(tmp_path: Path) -> None:
    """Modes that a tenant set do not keep anything."""
    closed = tmp_path / "tree" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_several_may_remove_one_tree_at_once(tmp_path: Path) -> None:
    """What somebody else removed meanwhile is no failure."""
    tree = tmp_path / "tree"
    for number in range(200):
        (tree / str(number)).mkdir(parents=True)
        (tree / str(number) / "file").touch()
    tmp_path.chmod(0o1777)
    with ThreadPoolExecutor(8) as removers:
        list(removers.map(lambda _: remove_tree(tree), range(8)))
    assert not tree.exists()
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_what_a_tree_lies_in_is_not_touched(tmp_path: Path) -> None:
    """Not even if the tree cannot be removed at the first try: it may lie in /dev/shm."""
    tmp_path.chmod(0o1777)
    (tmp_path / "a link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="symbolic link"):
        remove_tree(tmp_path / "a link")
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_what_lies_apart_is_a_directory_as_any_other(tmp_path: Path) -> None:
    """Made again it keeps what is in it; on whatever file system."""
    for _ in range(2):
        make_apart(tmp_path / "pods")
        (tmp_path / "pods" / "one").mkdir(exist_ok=True)
    assert [entry.name for entry in (tmp_path / "pods").iterdir()] == ["one"]
    assert (tmp_path / "pods").stat().st_mode & 0o7777 == 0o700


def test_an_ext4_is_told_that_directories_are_not_related(tmp_path: Path) -> None:
    """So that new files of one are not looked for among those that another has just lost."""
    listing = shutil.which("lsattr")
    if listing is None:
        pytest.skip("lsattr (e2fsprogs) is not installed")

    def flags(path: Path) -> str:
        told = subprocess.run([listing, "-d", path], capture_output=True, text=True, check=False)
        return told.stdout.partition(" ")[0]

    if "e" not in flags(tmp_path):
        pytest.skip(f"{tmp_path} is not on an ext4")
    make_apart(tmp_path / "pods")
    (tmp_path / "pods" / "one").mkdir()
    assert "T" in flags(tmp_path / "pods")
    assert "T" not in flags(tmp_path / "pods" / "one")
