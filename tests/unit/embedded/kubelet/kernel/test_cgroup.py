"""Cgroups of both generations, on trees of plain files that stand for the kernel's."""

from __future__ import annotations

import errno
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.kernel.cgroup import Groups

NAME = f"boilerhouse-{os.getpid()}"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    made = tmp_path / "proc"
    made.mkdir()
    return made


def unified(tmp_path: Path, proc: Path, controllers: str = "cpu io memory pids") -> Path:
    own = tmp_path / "cgroup" / "user" / "scope"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text(controllers + "\n")
    (own / "cgroup.procs").write_text(f"{os.getpid()}\n")
    mount = f"30 20 0:26 / {tmp_path}/cgroup rw - cgroup2 cgroup2 rw\n"
    (proc / "mountinfo").write_text(mount)
    (proc / "cgroup").write_text("0::/user/scope\n")
    return own


def split(tmp_path: Path, proc: Path) -> dict[str, Path]:
    lines, groups, own = [], [], {}
    for number, name in enumerate(("memory", "cpu", "pids"), 1):
        own[name] = tmp_path / "v1" / name / "mine"
        own[name].mkdir(parents=True)
        lines.append(f"{number} 20 0:2 / {tmp_path}/v1/{name} rw - cgroup cgroup rw,{name}\n")
        groups.append(f"{number}:{name}:/mine\n")
    (proc / "mountinfo").write_text("".join(lines))
    (proc / "cgroup").write_text("".join(groups))
    return own


def test_one_tree_gets_limits_in_one_directory(tmp_path: Path, proc: Path) -> None:
    """Version 2: memory, swap, CPU and processes are bounded in the container's own group."""
    own = unified(tmp_path, proc)
    groups = Groups.find("boilerhouse", proc=proc)
    assert groups.unenforced is None
    group = groups.create("pod.main.0")
    group.limit(64 * 1024 * 1024, 0.5)
    assert group.directories == (own / NAME / "pod.main.0",)
    (made,) = group.directories
    told = {path.name: path.read_text() for path in made.iterdir()}
    assert told == {
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "cpu.max": "50000 100000",
        "pids.max": "4096",
    }
    assert (own / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"


def test_split_trees_get_limits_in_each(tmp_path: Path, proc: Path) -> None:
    """Version 1: one directory per controller, below the group we run in."""
    own = split(tmp_path, proc)
    groups = Groups.find("boilerhouse", proc=proc)
    group = groups.create("pod.main.0")
    group.limit(1 << 20, 2.0)
    assert group.directories == tuple(own[name] / NAME / "pod.main.0" for name in own)
    memory, cpu, pids = group.directories
    assert (memory / "memory.limit_in_bytes").read_text() == "1048576"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "200000"
    assert (pids / "pids.max").read_text() == "4096"


def test_buffers_of_sockets_are_limited_where_they_can_be(tmp_path: Path, proc: Path) -> None:
    """Version 1 counts them apart: they get the limit of memory, and it is said if they cannot."""
    own = split(tmp_path, proc)
    groups = Groups.find("boilerhouse", proc=proc)
    groups.create("pod.main.0").limit(1 << 20, None)
    file = own["memory"] / NAME / "pod.main.0" / "memory.kmem.tcp.limit_in_bytes"
    assert not file.exists()
    assert "sockets" in groups.enforced
    (own["memory"] / NAME / file.name).write_text("")  # as the kernel would have it
    groups = Groups.find("boilerhouse", proc=proc)
    groups.create("pod.main.0").limit(1 << 20, None)
    assert file.read_text() == "1048576"
    assert "sockets" not in groups.enforced


@pytest.mark.parametrize(("text", "killed"), [("oom_kill 0\n", False), ("x 1\noom_kill 2\n", True)])
def test_death_for_want_of_memory_is_told(
    tmp_path: Path, proc: Path, text: str, killed: bool
) -> None:
    """The kernel's count of kills decides."""
    split(tmp_path, proc)
    group = Groups.find("boilerhouse", proc=proc).create("pod.main.0")
    group.limit(1 << 20, None)
    assert group.oom_file is not None
    group.oom_file.write_text(text)
    assert group.oom_killed() is killed


def test_missing_controllers_are_named(tmp_path: Path, proc: Path) -> None:
    """Without a delegated controller nothing is enforced, and the reason names it."""
    unified(tmp_path, proc, "cpu pids")
    groups = Groups.find("boilerhouse", proc=proc)
    assert groups.unenforced is not None
    assert "memory" in groups.unenforced
    assert groups.create("pod.main.0").directories == ()


def test_no_cgroups_at_all_is_a_reason(proc: Path) -> None:
    """A machine without cgroups runs containers without limits, and says so."""
    (proc / "mountinfo").write_text("1 0 0:1 / / rw - ext4 /dev/vda rw\n")
    (proc / "cgroup").write_text("")
    assert Groups.find("boilerhouse", proc=proc).unenforced == "no cgroups are mounted"


def test_what_the_killed_left_is_removed(tmp_path: Path, proc: Path) -> None:
    """Groups of a process that is gone are swept, those of a living one stay."""
    own = split(tmp_path, proc)
    dead, alive = own["memory"] / "boilerhouse-4000000000", own["memory"] / "boilerhouse-1"
    (dead / "pod.main.0").mkdir(parents=True)
    (alive / "pod.main.0").mkdir(parents=True)
    Groups.find("boilerhouse", proc=proc)
    assert not dead.exists()
    assert (alive / "pod.main.0").exists()


def test_several_who_start_at_once_sweep_together(tmp_path: Path, proc: Path) -> None:
    """That another removes the same groups at the same moment keeps nobody from starting."""
    own = split(tmp_path, proc)
    dead = [own["memory"] / f"boilerhouse-{4_000_000_000 + number}" for number in range(200)]
    for directory in dead:
        (directory / "pod.main.0").mkdir(parents=True)
    with ThreadPoolExecutor(8) as starters:
        found = list(starters.map(lambda _: Groups.find("boilerhouse", proc=proc), range(8)))
    assert [groups.unenforced for groups in found] == [None] * 8
    assert not any(directory.exists() for directory in dead)


@pytest.mark.processes
def test_who_outlived_the_killed_is_killed(tmp_path: Path, proc: Path) -> None:
    """A process in a group of somebody dead would keep it from being removed for ever."""
    own = split(tmp_path, proc)
    group = own["memory"] / "boilerhouse-4000000000" / "pod.main.0"
    group.mkdir(parents=True)
    with subprocess.Popen(["sleep", "1000"]) as orphan:
        # As the kernel tells it, with somebody of another process namespace.
        (group / "cgroup.procs").write_text(f"0\n{orphan.pid}\n")
        with pytest.raises(OSError, match="not empty"):  # a file of the kernel's would not count
            Groups.find("boilerhouse", proc=proc)
        assert orphan.wait(10) == -9


@pytest.mark.processes
def test_a_start_waits_a_moment_for_what_the_killed_left(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that the kernel does not let go of are left, after half a second in all."""
    own = split(tmp_path, proc)
    dead = subprocess.Popen(["true"])
    dead.wait()
    for parent in own.values():
        (parent / f"boilerhouse-{dead.pid}" / "pod.main.0").mkdir(parents=True)
    rmdir = Path.rmdir
    slept: list[float] = []

    def busy(path: Path) -> None:
        if str(dead.pid) in str(path):
            raise OSError(errno.EBUSY, "Device or resource busy")
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", busy)
    monkeypatch.setattr("boilerhouse.embedded.kubelet.kernel.cgroup.time.sleep", slept.append)
    assert Groups.find("boilerhouse", proc=proc).unenforced is None
    assert 0.3 < sum(slept) < 1
