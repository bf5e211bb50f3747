"""Writing below one overlay directory, by descriptors: a name from an archive cannot lead out.

    parts ─► the directory they are in, opened component by component ─► file | link | directory

No path of more than one component is ever given to the kernel, and no link is followed: a component
that is a link ends the job. So what an archive says earlier (a link) cannot redirect what it says
later (a file "below" the link), however long the chain; and a tenant that was not frozen and moves
its directories about gains nothing either, since a descriptor is not a name.

The directories from the overlay's own to the current one are open, no others. A directory gets its
mode and time when it is left, since writing into it would change the one and may need the other.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from boilerhouse.agent.archive import header
from boilerhouse.agent.archive.entries import (
    linked_to_directory,
    linked_to_nothing,
    not_the_overlay,
    through_link,
    twice,
)
from boilerhouse.agent.archive.failures import BadArchive
from boilerhouse.agent.archive.header import Member, shown
from boilerhouse.agent.archive.walk import OPEN_DIRECTORY

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_THROUGH = (errno.ENOTDIR, errno.ELOOP)
# Said by who may not give files away, or has no such user: owners are restored where possible.
_NOT_OURS_TO_GIVE = (errno.EPERM, errno.EINVAL)


class _Open:
    """A directory that is open, and what it is to be when it is left."""

    __slots__ = ("file", "mode", "mtime", "name")

    def __init__(self, name: bytes, file: int, mode: int, mtime: int) -> None:
        self.name = name
        self.file = file
        self.mode = mode
        self.mtime = mtime


class Tree:
    """One overlay directory that is being filled. `owners`: whether members keep theirs.

    `imply` counts the directories that are made without an entry of their own.
    """

    def __init__(self, root: int, owners: bool, imply: Callable[[], None]) -> None:
        found = os.fstat(root)
        self._owners = owners
        self._imply = imply
        # Opened again, as ours to close.
        file = os.open(".", OPEN_DIRECTORY, dir_fd=root)
        self._open = [_Open(b"", file, stat.S_IMODE(found.st_mode), found.st_mtime_ns)]
        self._entered: list[bytes] = []

    def directory(self, parts: list[bytes], member: Member) -> None:
        """Make a directory, or give the one that is there its member's mode, owner and time."""
        self._enter(parts, made_of=member)
        here = self._open[-1]
        here.mode, here.mtime = member.mode, member.mtime
        self._attributes(here.file, member)
        if self._owners:
            _give(here.file, member)

    def file(self, parts: list[bytes], member: Member, fill: Callable[[int], None]) -> None:
        """Make a file; `fill` writes its content to a descriptor.

        Its mode is without setuid and setgid: nothing that comes out of an archive may lend
        anybody's rights.
        """
        mode = member.mode & 0o1777
        extended = member.records and header.xattrs(member)
        made = 0o600 if extended else mode  # attributes cannot be given to who is read-only
        name, parent = self._parent(parts)
        try:
            file = os.open(name, _NEW_FILE, made, dir_fd=parent)
        except FileExistsError:
            _remove(name, parent, parts)
            file = os.open(name, _NEW_FILE, made, dir_fd=parent)
        try:
            fill(file)
            if extended:
                self._attributes(file, member)
            if self._owners:
                _give(file, member)
            if extended or mode & 0o1000:
                os.fchmod(file, mode)
            os.utime(file, ns=(member.mtime, member.mtime))
        finally:
            os.close(file)

    def symlink(self, parts: list[bytes], member: Member) -> None:
        """Make a symbolic link; where it points is nobody's business but the tenant's."""
        self._new(parts, lambda name, parent: os.symlink(member.link, name, dir_fd=parent))
        self._finish(parts[-1], member)

    def fifo(self, parts: list[bytes], member: Member) -> None:
        mode = member.mode & 0o777
        self._new(parts, lambda name, parent: os.mkfifo(name, mode, dir_fd=parent))
        self._finish(parts[-1], member)

    def hard_link(self, parts: list[bytes], member: Member, target: list[bytes]) -> None:
        """Give a file of this overlay another name."""
        try:
            self._enter(target[:-1], make=False)
        except FileNotFoundError:
            raise linked_to_nothing(member) from None
        source = os.dup(self._open[-1].file)
        try:
            found = os.stat(target[-1], dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                raise linked_to_directory(member)
            self._new(
                parts,
                lambda name, parent: os.link(
                    target[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False
                ),
            )
        except FileNotFoundError:
            raise linked_to_nothing(member) from None
        finally:
            os.close(source)

    def close(self) -> None:
        """Leave every directory, the overlay's own last."""
        while self._open:
            self._leave()

    def abandon(self) -> None:
        """Close what is open and change nothing more."""
        while self._open:
            os.close(self._open.pop().file)

    def _enter(self, parts: list[bytes], make: bool = True, made_of: Member | None = None) -> None:
        """Make the directory that these components name the current one."""
        opened = self._open
        if parts == self._entered:
            return
        same = 0
        most = min(len(parts), len(opened) - 1)
        while same < most and opened[same + 1].name == parts[same]:
            same += 1
        while len(opened) > same + 1:
            self._leave()
        for number in range(same, len(parts)):
            own = made_of is not None and number == len(parts) - 1
            self._step(parts, number, make, own)
        self._entered = parts

    def _step(self, parts: list[bytes], number: int, make: bool, own: bool) -> None:
        """Enter one more directory. `own`: it has an entry, and may take the place of others."""
        name, parent = parts[number], self._open[-1].file
        if make and self._made(name, parent, own):
            return
        try:
            file = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except OSError as error:
            if error.errno not in _THROUGH:
                raise
            if own:
                os.unlink(name, dir_fd=parent)
                self._made(name, parent, own)
                return
            raise through_link(parts[: number + 1]) from None
        found = os.fstat(file)
        self._open.append(_Open(name, file, stat.S_IMODE(found.st_mode), found.st_mtime_ns))

    def _made(self, name: bytes, parent: int, own: bool) -> bool:
        """Make a directory and enter it; False if something is there."""
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            return False
        if not own:
            self._imply()
        file = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        self._open.append(_Open(name, file, 0o755, os.fstat(file).st_mtime_ns))
        return True

    def _leave(self) -> None:
        left = self._open.pop()
        try:
            os.fchmod(left.file, left.mode)
            os.utime(left.file, ns=(left.mtime, left.mtime))
        finally:
            os.close(left.file)

    def _parent(self, parts: list[bytes]) -> tuple[bytes, int]:
        """Enter the directory that something is to be made in; returns its name there."""
        if not parts:
            raise not_the_overlay()
        self._enter(parts[:-1])
        return parts[-1], self._open[-1].file

    def _new(self, parts: list[bytes], make: Callable[[bytes, int], None]) -> None:
        """Make something where nothing is, or in place of what an earlier entry put there."""
        name, parent = self._parent(parts)
        try:
            make(name, parent)
        except FileExistsError:
            _remove(name, parent, parts)
            make(name, parent)

    def _finish(self, name: bytes, member: Member) -> None:
        """Give what cannot be opened its owner and time."""
        parent = self._open[-1].file
        if self._owners:
            try:
                os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NOT_OURS_TO_GIVE:
                    raise
        os.utime(name, ns=(member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)

    def _attributes(self, file: int, member: Member) -> None:
        for name, value in header.xattrs(member).items():
            try:
                os.setxattr(file, name, value)
            except OSError as error:
                if error.errno in (errno.ENOTSUP, errno.ENOSYS):
                    return  # not on this file system
                if error.errno not in (errno.EINVAL, errno.ERANGE, errno.E2BIG):
                    raise
                raise BadArchive(
                    "bad-attribute", f"{shown(member.name)}: {shown(name)}: {error.strerror}"
                ) from None


def _give(file: int, member: Member) -> None:
    try:
        os.fchown(file, member.uid, member.gid)
    except OSError as error:
        if error.errno not in _NOT_OURS_TO_GIVE:
            raise


def _remove(name: bytes, parent: int, parts: list[bytes]) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            raise twice(parts) from None
