"""The recording disk itself: it forgets what POSIX lets it forget, and nothing more."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.faults.powerloss.disk import Disk, Image, Loss
from tests.faults.powerloss.promises import unfaithful
from tests.faults.powerloss.recorder import Recording, build, record

PRELUDE = """
import ctypes, os, sys
os.chdir(sys.argv[1])
def write(name, data, flags=os.O_CREAT | os.O_WRONLY):
    fd = os.open(name, flags, 0o600); os.write(fd, data); return fd
def sync(name):
    fd = os.open(name, os.O_RDONLY); os.fsync(fd); os.close(fd)
"""


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("recorder"))


class Bench:
    """Runs a few lines of Python on the recording disk."""

    def __init__(self, recorder: Path, directory: Path) -> None:
        self._recorder = recorder
        self._directory = directory
        self.root = directory / "disk"
        self.root.mkdir()

    def run(self, program: str, fail_every: int = 0) -> Recording:
        command = [sys.executable, "-c", PRELUDE + program, str(self.root)]
        log = self._directory / "log"
        recording = record(self._recorder, self.root, log, command, fail_every=fail_every)
        if not fail_every:  # what such a sync takes away is still in the page cache
            assert unfaithful(recording, self.root) == []
        return recording

    def left(self, program: str, loss: Loss = Loss.EVERYTHING, seed: int = 0) -> dict[str, bytes]:
        """Return the files that survive a loss at the end of the program."""
        return after(self.run(program), loss, seed).files()


def after(recording: Recording, loss: Loss, seed: int = 0) -> Image:
    disk = Disk(recording.root_inode)
    for entry in recording.records:
        disk.apply(entry)
    return disk.crash(loss, random.Random(seed))


@pytest.fixture
def bench(recorder: Path, tmp_path: Path) -> Bench:
    return Bench(recorder, tmp_path)


def test_a_name_that_was_not_synced_is_gone_with_its_data(bench: Bench) -> None:
    """fsync of a file does not make its name safe: that takes an fsync of the directory."""
    assert bench.left("os.fsync(write('a', b'data'))") == {}


def test_data_that_was_not_synced_is_gone_though_its_name_stays(bench: Bench) -> None:
    """fsync of a directory says nothing about the content of the files in it."""
    assert bench.left("write('a', b'data'); sync('.')") == {"a": b""}


def test_what_was_synced_twice_over_is_safe_from_every_loss(bench: Bench) -> None:
    """After fsync of file and directory, no kind of loss takes anything."""
    recording = bench.run("os.fdatasync(write('a', b'data')); sync('.')")
    assert {loss: after(recording, loss).files() for loss in Loss} == {
        loss: {"a": b"data"} for loss in Loss
    }


def test_a_later_write_does_not_become_safe_by_an_earlier_sync(bench: Bench) -> None:
    """Only what was written before the fsync is covered by it; appends and cuts included."""
    program = """
fd = write('a', b'one'); os.fsync(fd); sync('.')
write('a', b'two', os.O_WRONLY | os.O_APPEND)
os.ftruncate(fd, 1)
"""
    assert bench.left(program) == {"a": b"one"}


def test_a_rename_is_undone_until_its_directory_is_synced(bench: Bench) -> None:
    """Replacing a file shows the old content after a loss, and the new one after a sync."""
    replace = """
os.fsync(write('a', b'old')); sync('.')
os.fsync(write('b', b'new')); os.rename('b', 'a')
"""
    recording = bench.run(replace)
    assert after(recording, Loss.EVERYTHING).files() == {"a": b"old"}
    assert after(recording, Loss.NOTHING).files() == {"a": b"new"}


def test_a_rename_before_the_sync_of_its_data_can_show_an_empty_file(bench: Bench) -> None:
    """The classic mistake: the name moves at once, the data does not."""
    program = "os.fsync(write('a', b'old')); write('b', b'new'); os.rename('b', 'a'); sync('.')"
    assert bench.left(program) == {"a": b""}


def test_a_removed_file_comes_back_with_its_own_content(bench: Bench) -> None:
    """Even if the kernel gave its inode number to a newer file."""
    program = """
for n in range(5):
    fd = write('a', b'%d' % n); os.fsync(fd); os.close(fd)
    if n == 0: sync('.')
    os.unlink('a')
"""
    assert bench.left(program) == {"a": b"0"}


def test_a_hard_link_stays_one_file(bench: Bench, tmp_path: Path) -> None:
    """Two safe names of one file are one file again in the directory that is left."""
    program = """
os.mkdir('v'); os.fsync(write('v/1', b'data')); sync('v')
os.link('v/1', 'tmp'); os.rename('tmp', 'current'); sync('.')
"""
    image = after(bench.run(program), Loss.EVERYTHING)
    image.write(tmp_path / "left")
    assert image.files() == {"v/1": b"data", "current": b"data"}
    left = tmp_path / "left"
    assert (left / "v/1").stat().st_ino == (left / "current").stat().st_ino


def test_some_losses_tear_a_write_at_sectors(bench: Bench) -> None:
    """A write that was not synced may survive in any of its sectors, never in part of one."""
    recording = bench.run("os.fsync(write('a', b'-' * 4096)); sync('.'); write('a', b'+' * 4096)")
    contents = [after(recording, Loss.SOME, seed).files()["a"] for seed in range(20)]
    assert len(set(contents)) > 10
    sectors = {content[at : at + 512] for content in contents for at in range(0, 4096, 512)}
    assert sectors == {b"-" * 512, b"+" * 512}


def test_a_failed_sync_is_not_made_good_by_the_next_one(bench: Bench) -> None:
    """What a failed sync covered stays unsafe until it is written again."""
    program = """
fd = write('a', b'one'); os.fsync(fd); sync('.')
ctypes.CDLL(None).powerloss_mark(b'from here on')
os.pwrite(fd, b'two', 0); os.fsync(fd)
os.pwrite(fd, b'six', 0)
try: os.fsync(fd)
except OSError: pass
os.pwrite(fd, b'!', 3)
os.fsync(fd)
"""
    recording = bench.run(program, fail_every=2)
    assert after(recording, Loss.EVERYTHING).files() == {"a": b"two!"}
