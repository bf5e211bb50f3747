"""Directories that tenants filled are taken away whatever is in them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.trees import remove_tree


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
