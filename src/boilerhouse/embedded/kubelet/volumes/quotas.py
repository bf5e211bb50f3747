"""Project quotas: the kernel refuses what a Pod writes past its disk, where it can.

start ─► Quotas.open: a scratch directory, a limit set and read back ─► available, or why not
Pod   ─► Quotas.of_accompanied: its directories, still empty ─► its built-in sidecar sets the limit
      ─► Quotas.clear once nothing of the Pod is left

A project is a number that a file system keeps with every inode; new files take it over from their
directory, and use is summed up per number. It is ours to give: a process in a user namespace, as
all containers' processes are, may not change it. Only what those write has one. The files of
built-in containers and the logs have none, so that what we write is never refused because a
container's process used up its quota.

The administrator switches quotas on (ext4: feature `project`, mounted with prjquota; xfs: mounted
with pquota). No file system is ever mounted or changed for it here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from boilerhouse.embedded.kubelet.kernel import linux
from boilerhouse.embedded.kubelet.kernel.trees import remove_tree
from boilerhouse.embedded.kubelet.objects.containerspec import accompanied, root_of
from boilerhouse.embedded.kubelet.volumes.volumes import Volume, writable_directories
from boilerhouse.platform.files.quota import START_ROOM, DiskSpace

Body = Mapping[str, Any]

# linux/fs.h: struct fsxattr, with the flag that new files take over the project.
_FSXATTR = struct.Struct("=5I8x")
_FS_IOC_FSGETXATTR = 0x801C581F
_FS_IOC_FSSETXATTR = 0x401C5820
_FS_XFLAG_PROJINHERIT = 0x200
# linux/quota.h: struct if_dqblk; limits of space in KiB, use of it in bytes. The kernel translates
# it for xfs as well. linux/dqblk_xfs.h: which quotas are enforced, of ext4 as well.
_DQBLK = struct.Struct("=8QI4x")
_KIB = 1024
_QIF_LIMITS = 0x1 | 0x4  # of space, of inodes
_Q_GETQUOTA = 0x800007
_Q_SETQUOTA = 0x800008
_Q_XGETQSTATV = 0x5808
_STATE = struct.Struct("=bBH252x")
_PROJECTS_ENFORCED = 1 << 5
_PRJQUOTA = 2
_SCRATCH_PROJECT = 1_899_999_999  # one below those of Pods, which are their host uids
_SCRATCH = ".quota-check"

log = structlog.get_logger(__name__)


class Quotas:
    """Project quotas of the file system that `directory` is on. `unavailable`: why there are none.

    What is not awaited blocks, for a moment.
    """

    def __init__(self, directory: Path, unavailable: str) -> None:
        self._directory = directory
        self.unavailable = unavailable

    @classmethod
    def open(cls, directory: Path) -> Quotas:
        """Find out whether quotas work in a directory, by setting one and reading it back."""
        quotas = cls(directory, "")
        try:
            quotas.unavailable = quotas._try()
        except OSError as error:
            quotas.unavailable = _words(error)
        return quotas

    async def of_accompanied(
        self,
        project: int,
        spec: Body,
        sandboxed: Sequence[Body],
        volumes: Mapping[str, Volume],
        directory: Path,
    ) -> PodQuota | None:
        """Return the quota of a Pod with a built-in sidecar, which sets the limit; else None."""
        if self.unavailable or not accompanied(spec, lambda one: one not in sandboxed):
            return None
        written = [volumes[name].path for name in writable_directories(spec, sandboxed)]
        roots = [root_of(directory, one["name"]) for one in sandboxed]
        return await asyncio.to_thread(self.of_pod, project, written, made=roots)

    def of_pod(
        self, project: int, directories: Sequence[Path], *, made: Sequence[Path] = ()
    ) -> PodQuota | None:
        """Have the kernel count what is written to directories, together; those in `made` are made.

        None if it cannot: then the sidecar has to see to the limit. So it is with a Pod that has
        files from a time without quotas, which would not be counted.
        """
        try:
            for directory in made:
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            found = [_cover(directory, project) for directory in (*directories, *made)]
            if None in found:
                return None
            if True in found:
                self.limit(project, None)  # whatever was left of another Pod of that number
        except OSError as error:
            log.warning("kubelet.no_quota", project=project, error=str(error))
            return None
        return PodQuota(self, project)

    def limit(self, project: int, limit: DiskSpace | None) -> None:
        """Set what a project may use; None: as much as it likes. Raises OSError."""
        space, inodes = (0, 0) if limit is None else (-(-limit.bytes // _KIB), limit.inodes)
        given = _DQBLK.pack(space, 0, 0, inodes, 0, 0, 0, 0, _QIF_LIMITS)
        self._call(_Q_SETQUOTA, project, bytearray(given))

    def read(self, project: int) -> tuple[DiskSpace | None, DiskSpace]:
        """Return what a project may use, None without a limit, and what it uses. Raises OSError."""
        found = bytearray(_DQBLK.size)
        try:
            self._call(_Q_GETQUOTA, project, found)
        except FileNotFoundError:  # xfs: it has neither
            return None, DiskSpace(0, 0)
        space, _, used, inodes, _, used_inodes, *_ = _DQBLK.unpack(found)
        limit = DiskSpace(space * _KIB, inodes) if space or inodes else None
        return limit, DiskSpace(used, used_inodes)

    def clear(self, project: int | None) -> None:
        """Take away the limit of a Pod that is gone, if it had one."""
        if self.unavailable or project is None:
            return
        # If that fails, a later Pod of that number begins without it all the same.
        with _logged("kubelet.quota_not_cleared", project):
            self.limit(project, None)

    def _try(self) -> str:
        if os.geteuid() != 0:
            return "only root may set quotas"
        state = bytearray(_STATE.size)
        state[0] = 1  # the version of the answer
        self._call(_Q_XGETQSTATV, 0, state)
        if not _STATE.unpack(state)[2] & _PROJECTS_ENFORCED:
            return "project quotas are not switched on"
        scratch = self._directory / _SCRATCH
        remove_tree(scratch)
        scratch.mkdir(mode=0o700)
        try:
            if _cover(scratch, _SCRATCH_PROJECT) is None:
                return "the directory of a trial was not empty"
            wanted = DiskSpace(1 << 20, 16)
            self.limit(_SCRATCH_PROJECT, wanted)
            set_to, used = self.read(_SCRATCH_PROJECT)
            self.limit(_SCRATCH_PROJECT, None)
        finally:
            remove_tree(scratch)
        # More than one inode: xfs gives those of an earlier trial back when it has time.
        if set_to != wanted or used.inodes < 1:
            return f"a trial set {wanted} and found {set_to}, {used}"
        return ""

    def _call(self, command: int, project: int, given: bytearray) -> None:
        with _opened(self._directory) as fd:
            linux.quotactl(fd, command << 8 | _PRJQUOTA, project, given)


class PodQuota:
    """Implements `Quota`: of one Pod."""

    def __init__(self, quotas: Quotas, project: int) -> None:
        self._quotas = quotas
        self._project = project

    def set(self, limit: DiskSpace | None) -> None:
        self._quotas.limit(self._project, limit)

    def read(self) -> tuple[DiskSpace | None, DiskSpace]:
        return self._quotas.read(self._project)

    @contextlib.asynccontextmanager
    async def room_to_start(self) -> AsyncIterator[None]:
        """Leave a little room while a sandbox is made.

        An overlay that cannot make its work directory is mounted read-only, and a container at its
        limit could not even remove files in it. (On ext4 root is exempt, on xfs it is not.)
        """
        before = await asyncio.to_thread(self._widen)
        try:
            yield
        finally:
            if before is not None:
                await asyncio.to_thread(self._narrow, *before)

    def _widen(self) -> tuple[DiskSpace, DiskSpace] | None:
        with _logged("kubelet.quota_not_widened", self._project):
            limit, used = self.read()
            wide = None if limit is None else limit.at_least(used, START_ROOM)
            if limit is not None and wide is not None and wide != limit:
                self.set(wide)
                return limit, wide
        return None

    def _narrow(self, limit: DiskSpace, wide: DiskSpace) -> None:
        with _logged("kubelet.quota_not_narrowed", self._project):
            if self.read()[0] == wide:  # else the sidecar has set another one meanwhile
                self.set(limit)


def _cover(directory: Path, project: int) -> bool | None:
    """Give a directory its project, True; or False, it has it; or None, it has files without one.

    What is in it already would not be counted.
    """
    with _opened(directory) as fd:
        found = bytearray(_FSXATTR.size)
        fcntl.ioctl(fd, _FS_IOC_FSGETXATTR, found)
        flags, extent, extents, before, cow = _FSXATTR.unpack(found)
        if before == project and flags & _FS_XFLAG_PROJINHERIT:
            return False
        with os.scandir(fd) as entries:
            if next(entries, None) is not None:
                return None
        flags |= _FS_XFLAG_PROJINHERIT
        wanted = _FSXATTR.pack(flags, extent, extents, project, cow)
        fcntl.ioctl(fd, _FS_IOC_FSSETXATTR, wanted)
    return True


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _logged(event: str, project: int) -> Iterator[None]:
    """Go on without what fails: a quota is no reason for anything else to fail."""
    try:
        yield
    except OSError as error:
        log.warning(event, project=project, error=str(error))


def _words(error: OSError) -> str:
    if error.errno in (errno.ESRCH, errno.EOPNOTSUPP, errno.ENOTTY):
        return "project quotas are not switched on"
    if error.errno == errno.ENOSYS:
        # Of the call before Linux 5.14, of the quotas where the file system knows none.
        return "the kernel or the file system has no project quotas"
    return f"project quotas cannot be used: {error.strerror}"
