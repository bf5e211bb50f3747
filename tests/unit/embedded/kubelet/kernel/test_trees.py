"""Directories that tenants filled are taken away whatever is in them."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.kernel.trees import give_tree, remove_tree, used, used_bytes
from boilerhouse.platform.files.removal import NotRemoved
from tests.deep import bottom, dig, read, somewhere
from tests.unit.node.agent.agent_fixture import open_descriptors


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


@pytest.mark.processes
@pytest.mark.parametrize(
    ("levels", "name"), [(1_500, "d"), (25_000, "d"), (130, "n" * 200)], ids=str
)
def test_no_tree_is_too_deep(levels: int, name: str) -> None:
    """What a tenant nests, or names, does not keep it: it is counted, handed over and removed."""
    with somewhere() as room:
        before = open_descriptors()
        tree = room / "tree"
        dig(tree, levels, name, bytes(1 << 20))
        size, inodes = used(tree)
        assert size >= 1 << 20
        assert inodes == levels + 2
        owned: list[str] = []

        def own(path: Path) -> None:
            path.lstat()
            owned.append(path.name)

        give_tree(tree, own)
        assert owned == ["tree", *[name] * levels, "end"]
        remove_tree(tree)
        assert not tree.exists()
        assert open_descriptors() <= before


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_million_levels() -> None:
    """Few descriptors and little memory do for any depth."""
    with somewhere() as room:
        dig(room / "tree", 1_000_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert used(room / "tree")[1] == 1_000_002
        remove_tree(room / "tree")
        assert not (room / "tree").exists()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_tree_is_given_to_its_tenant(tmp_path: Path) -> None:
    """Every file and directory, whatever the length of its path; a link, not what it leads to."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    dig(tmp_path / "tree", 100, "n" * 200)
    (tmp_path / "tree/link").symlink_to(tmp_path)
    give_tree(tmp_path / "tree", lambda path: os.chown(path, 77, 78, follow_symlinks=False))
    with bottom(tmp_path / "tree", 100, "n" * 200) as last:
        assert os.fstat(last).st_uid == 77
        assert os.stat("end", dir_fd=last).st_gid == 78
        assert read(last, "end") == b"precious"
    assert (tmp_path / "tree/link").lstat().st_uid == 77
    assert tmp_path.stat().st_uid == 0
    remove_tree(tmp_path / "tree")


def test_a_file_with_several_names_is_counted_once(tmp_path: Path) -> None:
    """As the file system counts it: a tenant that links does not use more."""
    (tmp_path / "a").write_bytes(os.urandom(1 << 20))
    for number in range(9):
        os.link(tmp_path / "a", tmp_path / f"l{number}")
    assert 1 << 20 <= used_bytes(tmp_path) < 2 << 20
    assert used(tmp_path)[1] == 2
    assert used_bytes(tmp_path / "none") == 0


@pytest.fixture
def immutable(tmp_path: Path) -> Iterator[Path]:
    """A file that not even root may remove."""
    file = tmp_path / "tree/in/kept"
    file.parent.mkdir(parents=True)
    file.touch()
    if subprocess.run(["chattr", "+i", file], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    yield file
    subprocess.run(["chattr", "-i", file], check=True)


@pytest.mark.processes
def test_what_cannot_be_removed_is_named_and_the_rest_goes(immutable: Path) -> None:
    """One stubborn file does not keep the disk full."""
    tree = immutable.parent.parent
    (tree / "in" / "other").write_bytes(b"x")
    dig(tree / "more", 300)
    with pytest.raises(NotRemoved, match="'in/kept' cannot be removed: Operation not permitted"):
        remove_tree(tree)
    assert [path.name for path in tree.rglob("*")] == ["in", "kept"]
