"""Runs inside User Mode Linux, as its first process: project quotas on real file systems.

test_disk_quotas.py ─► linux.uml ─► main: modules, ext4 and xfs on loop devices ─► a line per check
                                      └─► on each a live `up`: a tenant fills its disk

Each check is a function that takes a fresh place on a file system with quotas and returns what it
found; what that has to be is said in test_disk_quotas.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from boilerhouse.embedded.kubelet.volumes.quotas import PodQuota, Quotas
from boilerhouse.embedded.kubelet.volumes.volumes import Volume, Volumes
from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.disk.quota import DiskQuota
from tests.e2e.snapshots_fixture import on_this_machine, soon
from tests.e2e.test_disk_full import beat, begin, disk_full

MIB = 1 << 20
TENANT = 1_900_000_007
LIMIT = DiskLimit(20 * MIB, 100)
MARK = "CHECK "
_FINIT_MODULE = 313  # x86-64, the one architecture of User Mode Linux
_CLONE_NEWUSER = 0x10000000
_projects = itertools.count(TENANT)
_libc = ctypes.CDLL(None, use_errno=True)


class Place:
    """A tenant's volume below a directory on a file system with quotas."""

    def __init__(self, top: Path) -> None:
        # A number each: xfs gives back what was removed of an earlier check when it has time.
        self.project = next(_projects)
        self.quotas = Quotas.open(top)
        assert not self.quotas.unavailable, self.quotas.unavailable
        self.volume = Path(tempfile.mkdtemp(dir=top))
        os.chown(self.volume, TENANT, TENANT)
        quota = self.quotas.of_pod(self.project, [self.volume])
        assert quota is not None
        self.quota: PodQuota = quota
        self.quota.set(LIMIT)

    def close(self) -> None:
        subprocess.run(["rm", "-rf", str(self.volume)], check=True)
        self.quotas.clear(self.project)


def as_tenant(work: Callable[[], Any], *, own_namespace: bool = False) -> Any:
    """Do something as the tenant's uid, and return what it returns: JSON."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(TENANT, TENANT, TENANT)
            os.setresuid(TENANT, TENANT, TENANT)
            if own_namespace and _libc.unshare(_CLONE_NEWUSER) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            os.write(theirs, json.dumps(work()).encode())
        os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with os.fdopen(ours) as answer:
        return json.loads(answer.read() or '"it died"')


def write(file: Path, size: int) -> str:
    """Write so much; return the name of the error, if any."""
    try:
        with file.open("ab", buffering=0) as opened:
            left = size
            while left > 0:
                left -= opened.write(bytes(min(left, 65536)))
            os.fsync(opened.fileno())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def past_the_limit(place: Place) -> Any:
    """Write twice the limit; what else is on the file system is not concerned."""
    said = as_tenant(lambda: write(place.volume / "big", 40 * MIB))
    used = place.quota.read()[1].bytes
    beside = place.volume.parent / "beside"
    fine = write(beside, 30 * MIB)
    beside.unlink()
    return {"said": said, "share": used / LIMIT.bytes, "beside": fine}


def too_many_files(place: Place) -> Any:
    def make() -> Any:
        for number in range(200):
            try:
                (place.volume / f"f{number}").touch()
            except OSError as error:
                return number, errno.errorcode[error.errno or 0]
        return 200, ""

    return as_tenant(make)


def reads_back(place: Place) -> Any:
    limit, used = place.quota.read()
    assert limit is not None
    return [limit.bytes, limit.inodes, used.inodes]


def hard_links(place: Place) -> Any:
    """Forty names of one file of 10 MiB."""

    def make() -> Any:
        said = write(place.volume / "one", 10 * MIB)
        for number in range(40):
            os.link(place.volume / "one", place.volume / f"link{number}")
        return said

    said = as_tenant(make)
    used = place.quota.read()[1]
    return {"said": said, "mib": used.bytes // MIB, "inodes": used.inodes}


def deep_path(place: Place) -> Any:
    """Write below sixty directories: they have all taken over the project."""

    def make() -> Any:
        path = place.volume
        for number in range(60):
            path = path / f"a directory with quite a long name, number {number}"
            path.mkdir()
        return write(path / "big", 40 * MIB)

    return as_tenant(make)


def raised(place: Place) -> Any:
    before = as_tenant(lambda: write(place.volume / "big", 40 * MIB))
    place.quota.set(DiskLimit(60 * MIB, 100))
    return [before, as_tenant(lambda: write(place.volume / "more", 20 * MIB))]


def restored_past_it(place: Place) -> Any:
    """Write as root while the limit is lifted, then set it: the tenant may only clean up."""
    place.quota.set(None)
    restored = write(place.volume / "restored", 40 * MIB)
    os.chown(place.volume / "restored", TENANT, TENANT)
    place.quota.set(LIMIT)
    there = (place.volume / "restored").stat().st_size // MIB
    on_top = as_tenant(lambda: write(place.volume / "on-top", MIB))
    as_tenant(lambda: (place.volume / "restored").unlink())
    return [restored, there, on_top, as_tenant(lambda: write(place.volume / "again", MIB))]


def cleared(place: Place) -> Any:
    place.quotas.clear(place.project)
    return [place.quota.read()[0], as_tenant(lambda: write(place.volume / "big", 40 * MIB))]


def tenant_changes_its_project(place: Place) -> Any:
    """Try what a tenant in its user namespace could: another project, no inheritance."""

    def change() -> Any:
        said = []
        for flags, project in ((0x200, 0), (0x200, 12345), (0, place.project)):
            fd = os.open(place.volume, os.O_RDONLY)
            wanted = struct.pack("=5I8x", flags, 0, 0, project, 0)
            try:
                fcntl.ioctl(fd, 0x401C5820, wanted)
                said.append("")
            except OSError as error:
                said.append(errno.errorcode[error.errno or 0])
        return said

    return as_tenant(change, own_namespace=True)


def not_from_the_start(place: Place) -> Any:
    """A directory with files that no project counts gets no quota: its tenant is frozen instead."""
    old = Path(tempfile.mkdtemp(dir=place.volume.parent))
    (old / "file").touch()
    return place.quotas.of_pod(next(_projects), [old]) is None


def agent_state(place: Place) -> Any:
    """Once the tenant has used up its quota, what lies beside its volume can be written."""
    as_tenant(lambda: write(place.volume / "big", 40 * MIB))
    state = Path(tempfile.mkdtemp(dir=place.volume.parent))
    return write(state / "record.json", MIB)


def upper_layer(place: Place) -> Any:
    """Through an overlay that root has mounted, as an image's root is."""
    root = place.volume.parent / "roots"
    for name in ("lower", "rw", "merged"):
        (root / name).mkdir(parents=True)
    quota = place.quotas.of_pod(place.project, [root / "rw"])
    assert quota is not None
    quota.set(LIMIT)
    for name in ("upper", "work"):
        (root / "rw" / name).mkdir()
        os.chown(root / "rw" / name, TENANT, TENANT)

    async def mount_again() -> None:
        async with quota.room_to_start():
            run("mount", "-t", "overlay", "overlay", "-o", options, str(root / "merged"))
        assert quota.read()[0] == LIMIT

    options = f"lowerdir={root}/lower,upperdir={root}/rw/upper,workdir={root}/rw/work,userxattr"
    run("mount", "-t", "overlay", "overlay", "-o", options, str(root / "merged"))
    said = as_tenant(lambda: write(root / "merged" / "big", 40 * MIB))
    run("umount", str(root / "merged"))
    # As a container that starts again while it is full.
    asyncio.run(mount_again())
    removed = as_tenant(lambda: remove(root / "merged" / "big"))
    run("umount", str(root / "merged"))
    return [said, removed]


def remove(file: Path) -> str:
    try:
        file.unlink()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def pod(place: Place) -> Any:
    """The volumes of an instance as the kubelet makes them, with an agent's limit."""
    uid = next(_projects)
    directory = place.volume.parent / "pods" / "uid"

    def own(path: Path) -> None:
        os.chown(path, TENANT, TENANT)

    tenant = {"name": "tenant", "volumeMounts": [{"name": "o", "mountPath": "/home"}]}
    agent = {"name": "agent", "restartPolicy": "Always"}
    spec = {
        "initContainers": [agent],
        "containers": [tenant],
        "volumes": [{"name": "o", "emptyDir": {}}, {"name": "agent-state", "emptyDir": {}}],
    }

    async def prepare() -> tuple[DiskQuota, dict[str, Volume]]:
        # Neither memory, claims nor objects are asked for directories on the disk.
        unused: Any = None
        made = Volumes(directory, "uid", unused, unused, unused)
        volumes = await made.prepare(spec, {"o"}, own)
        found = await place.quotas.of_accompanied(uid, spec, [tenant], volumes, directory)
        assert found is not None
        again = await place.quotas.of_accompanied(uid, spec, [tenant], volumes, directory)
        assert again is not None
        quota = DiskQuota(again)
        await quota.impose(LIMIT)
        assert quota.holds
        return quota, volumes

    _, volumes = asyncio.run(prepare())
    upper = directory / "roots" / "tenant" / "upper"
    upper.mkdir()
    own(upper)
    said = as_tenant(lambda: write(volumes["o"].path / "big", 40 * MIB))
    layer = as_tenant(lambda: write(upper / "big", MIB))
    state = write(volumes["agent-state"].path / "record.json", MIB)
    # After a restart the agent imposes it anew, and a full instance can be started.
    asyncio.run(prepare())
    (upper.parent / "work").mkdir()
    run("rm", "-rf", str(directory))
    assert place.quotas.read(uid)[0] is not None  # as if it could not be taken away
    other = place.volume.parent / "other"
    other.mkdir()
    next_pod = place.quotas.of_pod(uid, [other])
    assert next_pod is not None
    return {"said": said, "layer": layer, "state": state, "after": next_pod.read()[0]}


def live(place: Place) -> Any:
    """A tenant of `boilerhouse up` fills its disk of 1 GiB, cleans up and is brought back."""
    with on_this_machine(place.volume.parent / "home") as home:
        instance = begin(home, "fay", "filled")
        home.sh(instance, "fallocate -l 1000M /workspace/big")
        said = home.sh(instance, "dd if=/dev/zero of=/workspace/dd bs=64k count=1000 2>&1 || true")
        soon("it is told", lambda: disk_full(home, "fay") == "True", 90)
        told = home.held("fay")["conditions"]
        before = beat(home, instance)
        home.sh(instance, "rm /workspace/big")
        soon("it runs", lambda: beat(home, instance) != before)
        return {
            "said": said,
            "told": {one["type"]: one["reason"] for one in told},
            "kept": home.sh(instance, "cat /workspace/precious"),
        }


CHECKS = (
    live,
    pod,
    reads_back,
    past_the_limit,
    too_many_files,
    hard_links,
    deep_path,
    raised,
    restored_past_it,
    cleared,
    tenant_changes_its_project,
    not_from_the_start,
    agent_state,
    upper_layer,
)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def say(system: str, check: str, found: Any) -> None:
    print(MARK + json.dumps([system, check, found]), flush=True)


def load(name: str) -> None:
    release = os.uname().release
    for file in Path(f"/usr/lib/uml/modules/{release}").rglob(f"{name}.ko"):
        with file.open("rb") as module:
            if _libc.syscall(_FINIT_MODULE, module.fileno(), b"", 0) != 0:
                raise OSError(ctypes.get_errno(), f"{name} cannot be loaded")


def main() -> None:
    os.environ |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"}
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "tmpfs", "tmpfs", "/tmp")
    run("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    for kind, target in (("tmpfs", "/dev/shm"), ("devpts", "/dev/pts")):
        Path(target).mkdir(exist_ok=True)
        run("mount", "-t", kind, kind, target)
    run("ip", "link", "set", "lo", "up")
    for name in ("loop", "quota_tree", "quota_v2", "overlay"):
        load(name)
    make = {
        "ext4": ("mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"),
        "xfs": ("mkfs.xfs", "-q"),
        "counted": ("mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"),
        "plain": ("mkfs.ext4", "-q"),
    }
    options = {"ext4": "prjquota", "xfs": "pquota", "counted": "loop", "plain": "loop"}
    for system, command in make.items():
        image, place = Path(f"/tmp/{system}.img"), Path(f"/mnt/{system}")
        with image.open("wb") as file:
            file.truncate(3 << 30)  # sparse
        run(*command, str(image))
        place.mkdir()
        run("mount", "-o", f"loop,{options[system]}", str(image), str(place))
        say(system, "unavailable", Quotas.open(place).unavailable)
        say(system, "left", [entry.name for entry in place.iterdir()])
        if system in ("ext4", "xfs"):
            for check in CHECKS:
                try:
                    where = Place(place)
                    say(system, check.__name__, check(where))
                    where.close()
                except BaseException:  # noqa: BLE001  pytest.fail too; the next one is another thing
                    say(system, check.__name__, traceback.format_exc())
        # Its loop device may be gone by itself before `umount` looks for it.
        subprocess.run(["umount", str(place)], check=False)
        image.unlink()


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  the machine is to be switched off in any case
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        with open("/proc/sysrq-trigger", "w") as trigger:  # noqa: PTH123
            trigger.write("o")
