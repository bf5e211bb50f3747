"""The volume: taken by one helper at a time, and tried before it is trusted."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.node.helper.store.locks import Locks
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.store.volume import Volume, VolumeUnfit
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.agent.agent_fixture import open_descriptors


@pytest.mark.slow
def test_one_helper_at_a_time(tmp_path: Path) -> None:
    """A second one waits, and gives up with a sentence if the first does not let go."""
    first = Volume.open(tmp_path)
    with pytest.raises(VolumeUnfit, match="held by another"):
        Volume.open(tmp_path, patience=0.1)
    threading.Timer(0.2, first.close).start()
    second = Volume.open(tmp_path, patience=10)
    second.close()
    second.close()


def test_what_is_opened_is_closed(tmp_path: Path) -> None:
    """No descriptor stays, also if the volume is not fit."""
    before = open_descriptors()
    Store.open(tmp_path, FakeClock()).close()
    held = Volume.open(tmp_path)
    with pytest.raises(VolumeUnfit):
        Volume.open(tmp_path, patience=0.1)
    held.close()
    (tmp_path / ".v").rmdir()
    (tmp_path / ".v").touch()
    with pytest.raises(NotADirectoryError):
        Store.open(tmp_path, FakeClock())
    assert open_descriptors() == before


def test_a_volume_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with the reason and a way out."""

    def none(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with pytest.raises(VolumeUnfit, match=r"no hard links .*Use a volume"):
        Volume.open(tmp_path)


def test_a_volume_that_copies_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that are copies would make every version current, or none."""

    def copies(name: str, second: str, *, src_dir_fd: int, **kwargs: object) -> None:
        os.close(os.open(second, os.O_CREAT | os.O_WRONLY, dir_fd=src_dir_fd))

    monkeypatch.setattr(os, "link", copies)
    with pytest.raises(VolumeUnfit, match="copies"):
        Volume.open(tmp_path)


@pytest.mark.parametrize(
    ("folded", "why"),
    [
        (str.casefold, "upper from lower case"),
        (lambda name: name.replace("e\u0301", "\u00e9"), "one letter apart"),
    ],
)
def test_a_volume_that_folds_names(
    tmp_path: Path, folded: object, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tenants could share a file there: refused."""
    assert callable(folded)
    real = os.stat

    def stat(name: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> object:
        if dir_fd is not None:
            with os.scandir(dir_fd) as names:
                for entry in names:
                    if folded(entry.name) == folded(name):
                        name = entry.name
        return real(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(VolumeUnfit, match=why):
        Volume.open(tmp_path)


def test_a_volume_for_short_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some encrypted file systems take 143 bytes; ids may have 200."""
    real = os.open

    def short(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if len(str(path)) > 143:
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", short)
    with pytest.raises(VolumeUnfit, match="long names"):
        Volume.open(tmp_path)


def test_writing_after_the_end(tmp_path: Path) -> None:
    """A discarded upload takes no more: its number may be another file's by now."""
    volume = Volume.open(tmp_path)
    incoming = volume.incoming()
    incoming.write(b"a")
    incoming.discard()
    incoming.discard()
    with pytest.raises(Refused):
        incoming.write(b"b")
    assert not list((tmp_path / ".tmp").iterdir())
    volume.close()


def test_locks() -> None:
    """Two of one name follow each other, two names do not; none is remembered for nothing."""
    locks = Locks()
    order: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with locks.of("a"):
            inside.set()
            leave.wait(10)
            order.append("first")

    def second() -> None:
        with locks.of("a"):
            order.append("second")

    threads = [threading.Thread(target=work) for work in (first, second)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    with locks.of("b"):
        order.append("other")
    leave.set()
    for thread in threads:
        thread.join(10)
    assert order == ["other", "first", "second"]
    assert not locks._wanted
