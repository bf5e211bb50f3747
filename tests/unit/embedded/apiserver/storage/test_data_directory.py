"""Which directories become a data directory, and that the others are left as they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from boilerhouse.embedded.apiserver.storage.datadirectory import take_directory
from boilerhouse.embedded.apiserver.storage.store import Store, StoreFailed


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


def test_a_new_one_is_ours_alone(tmp_path: Path) -> None:
    """Made with its parents, closed to others whatever the umask."""
    umask = os.umask(0)
    try:
        take_directory(tmp_path / "a" / "b")
    finally:
        os.umask(umask)
    assert mode(tmp_path / "a" / "b") == 0o700


def test_an_empty_one_and_the_root_of_a_disk_are_taken(data: Path) -> None:
    """What a file system brings along does not count as content."""
    take_directory(data)
    (data / "lost+found").mkdir()
    take_directory(data)


async def test_ours_is_taken_again_whatever_else_is_in_it(data: Path) -> None:
    """A database, its log alone, or a lock that was left show whose it is."""
    await (await Store.open(data)).close()
    (data / "notes").touch()
    take_directory(data)
    (data / "kube.db").rename(data / "moved-away")
    take_directory(data)
    (data / "lock").unlink()
    (data / "kube.db-wal").touch()
    take_directory(data)


@pytest.mark.parametrize("name", ["notes", ".profile", "lock"])
def test_somebody_elses_is_refused_and_left_alone(data: Path, name: str) -> None:
    """A directory in use for something else is neither joined nor closed to its users."""
    (data / name).write_text("precious")
    data.chmod(0o755)
    with pytest.raises(StoreFailed, match="neither empty nor a data directory"):
        take_directory(data)
    assert [entry.name for entry in data.iterdir()] == [name]
    assert mode(data) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("file", ["kube.db", "kube.db-wal", "lock"])
def test_what_another_user_made_is_refused_also_for_root(data: Path, file: str) -> None:
    """Root would give tenants' files to uids of its own, and that user could not use them."""
    (data / file).touch()
    os.chown(data / file, 65534, 65534)
    with pytest.raises(StoreFailed, match=r"another user, nobody, .*run this as nobody, or choose"):
        take_directory(data)
    os.chown(data / file, 4_000_000_000, 65534)
    with pytest.raises(StoreFailed, match="run this as uid 4000000000"):
        take_directory(data)
    assert [entry.name for entry in data.iterdir()] == [file]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_one_that_belongs_to_another_user_is_refused(data: Path) -> None:
    """Empty or with our own store in it: its owner could exchange the keys."""
    os.chown(data, 65534, 65534)
    with pytest.raises(StoreFailed, match=r"belongs to another user, nobody, .*to root"):
        take_directory(data)
    assert not list(data.iterdir())
    (data / "kube.db").touch()
    with pytest.raises(StoreFailed, match="belongs to another user"):
        take_directory(data)
    os.chown(data, os.geteuid(), -1)
    take_directory(data)


@pytest.mark.parametrize("opened", [0o755, 0o770, 0o701])
def test_one_that_others_can_enter_is_refused_with_the_remedy(data: Path, opened: int) -> None:
    """Its mode is its owner's to change: the refusal says how."""
    data.chmod(opened)
    with pytest.raises(StoreFailed, match=f"chmod 700 {data}"):
        take_directory(data)
    assert mode(data) == opened


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """One sentence for each way in which a path leads to no directory."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed, match="is not a directory"):
        take_directory(tmp_path / "file")
    with pytest.raises(StoreFailed, match="cannot be used"):
        take_directory(tmp_path / "file" / "below")


@pytest.mark.parametrize("kind", ["link", "hard link", "text", "directory", "pipe"])
async def test_a_lock_that_is_not_ours_is_not_written(
    data: Path, tmp_path: Path, kind: str
) -> None:
    """Whatever lies there under the lock's name keeps its content, also behind a link."""
    precious, lock = tmp_path / "precious", data / "lock"
    precious.write_text("precious")
    if kind == "link":
        lock.symlink_to(precious)
    elif kind == "hard link":
        lock.hardlink_to(precious)
    elif kind == "text":
        lock.write_text("precious")
    elif kind == "directory":
        lock.mkdir()
    else:
        os.mkfifo(lock)
    with pytest.raises(StoreFailed, match="lock is not Boilerhouse's"):
        await Store.open(data)
    assert precious.read_text() == "precious"
    assert not (data / "kube.db").exists()
