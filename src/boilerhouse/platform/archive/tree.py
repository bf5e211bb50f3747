"""Writing below one overlay directory, by descriptors: a name from an archive cannot lead out.

    parts ─► the directory they are in, opened component by component ─► file | link | directory

No path of more than one component is ever given to the kernel, and no link is followed: a component
that is a link ends the job. So what an archive says earlier (a link) cannot redirect what it says
later (a file "below" the link), however long the chain; and a tenant that was not frozen and moves
its directories about gains nothing either, since a descriptor is not a name.

Of the directories from the overlay's own to the current one the last are open, and those that wait
for their last files; the others are opened again by `..`, and have to be the same. A directory gets
its mode and time when it is left and these are there, since writing into it would change the one
and may need the other.

Small files are made by the parallel writer, a little later than the archive has them. Whatever
they could get in the way of is done when they are there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from boilerhouse.platform.archive import header
from boilerhouse.platform.archive.batch import NEW_FILE, NOT_OURS_TO_GIVE, Open, give
from boilerhouse.platform.archive.entries import (
    in_common,
    linked_to_directory,
    linked_to_nothing,
    not_the_overlay,
    through_link,
    twice,
)
from boilerhouse.platform.archive.failures import BadArchive, Failed
from boilerhouse.platform.archive.header import Member, shown
from boilerhouse.platform.archive.parallel_writer import SMALL, ParallelWriter
from boilerhouse.platform.archive.reader import Layout
from boilerhouse.platform.files.descent import OPEN_DIRECTORY

_THROUGH = (errno.ENOTDIR, errno.ELOOP)
DEEP = 512  # levels after which directories are filled elsewhere, and moved
_OPEN = 64  # directories on the way to the current one that are open


class Tree:
    """One overlay directory that is being filled. `owners`: whether members keep theirs.

    `imply` counts the directories that are made without an entry of their own.
    """

    def __init__(
        self, root: int, parallel_writer: ParallelWriter, owners: bool, imply: Callable[[], None]
    ) -> None:
        found = os.fstat(root)
        self._writer = parallel_writer
        self._owners = owners
        self._imply = imply
        # Opened again, as ours to close.
        file = os.open(".", OPEN_DIRECTORY, dir_fd=root)
        self._open = [Open(b"", file, stat.S_IMODE(found.st_mode), found.st_mtime_ns)]
        self._closed = 0  # so many of them are not open: the first ones
        self._root = os.dup(file)
        self._moved = 0
        self._way: list[bytes] = []  # the names of those that are open, without the overlay's

    def directory(self, parts: list[bytes], member: Member) -> None:
        """Make a directory, or give the one that is there its member's mode, owner and time."""
        self._enter(parts, made_of=member)
        here = self._open[-1]
        here.mode, here.mtime = member.mode, member.mtime
        self._attributes(here.file, member)
        if self._owners:
            give(here.file, (member.uid, member.gid))

    def file(self, parts: list[bytes], member: Member, layout: Layout) -> None:
        """Make a file, of the content that the source has next.

        Its mode is without setuid and setgid: nothing that comes out of an archive may lend
        anybody's rights.
        """
        mode = member.mode & 0o1777
        owner = (member.uid, member.gid) if self._owners else None
        extended = header.xattrs(member) if member.records else None
        here = self._parent(parts)
        if member.size <= SMALL and layout[0] == layout[2] == member.size and not extended:
            self._writer.file(here, parts, member, mode, owner)
            return
        self._require_settled(here, parts[-1])
        made = 0o600 if extended else mode  # attributes cannot be given to who is read-only
        try:
            number = os.open(parts[-1], NEW_FILE, made, dir_fd=here.file)
        except FileExistsError:
            self._make_room(parts)
            number = os.open(parts[-1], NEW_FILE, made, dir_fd=here.file)
        file = Open(parts[-1], number, None, member.mtime)
        try:
            if extended:
                self._attributes(file.file, member)
            if owner:
                give(file.file, owner)
            if extended or mode & 0o1000:
                file.mode = mode
            size, extents, _ = layout
            if len(extents) != 1 or extents[0] != (0, size):
                os.ftruncate(file.file, size)
            for offset, length in extents:
                self._writer.content(file, parts, member, offset, length)
        finally:
            self._writer.leave(file)

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
        self._writer.settle()
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
        self._close_root()

    def abandon(self) -> None:
        """Close what is open and change nothing more."""
        self._close_root()
        for opened in self._open:
            if opened.above >= 0:
                os.close(opened.above)
        while len(self._open) > self._closed:
            os.close(self._open.pop().file)
        self._open.clear()
        self._closed = 0

    def _enter(self, parts: list[bytes], make: bool = True, made_of: Member | None = None) -> None:
        """Make the directory that these components name the current one."""
        opened = self._open
        if parts == self._way:
            return
        same = in_common(self._way, parts)
        while len(opened) > same + 1:
            self._leave()
        for number in range(same, len(parts)):
            self._require_settled(opened[-1], parts[number])
            own = made_of is not None and number == len(parts) - 1
            self._step(parts, number, make, own)

    def _push(self, opened: Open) -> None:
        """Have entered a directory; one that lies far above is closed meanwhile."""
        self._open.append(opened)
        self._way.append(opened.name)
        if len(self._open) - self._closed > _OPEN:
            far = self._open[self._closed]
            if far.batches:
                self._writer.settle()
            found = os.fstat(far.file)
            far.identity = found.st_dev, found.st_ino
            os.close(far.file)
            self._closed += 1

    def _open_above(self) -> None:
        """Open the directory above the current one again, if it was closed."""
        if len(self._open) - self._closed > 1 or not self._closed:
            return
        above = self._open[self._closed - 1]
        if self._open[-1].above >= 0:
            file = os.dup(self._open[-1].above)
        else:
            file = os.open("..", OPEN_DIRECTORY, dir_fd=self._open[-1].file)
        found = os.fstat(file)
        if (found.st_dev, found.st_ino) != above.identity:
            os.close(file)
            raise Failed("moved", "directories were moved about while they were restored")
        above.file = file
        self._closed -= 1

    def _step(self, parts: list[bytes], number: int, make: bool, own: bool) -> None:
        """Enter one more directory. `own`: it has an entry, and may take the place of others."""
        name, parent = parts[number], self._open[-1].file
        if make and self._made(name, parent, own):
            return
        self._writer.settle()  # it may be one that was left, and is not finished
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
        self._push(Open(name, file, stat.S_IMODE(found.st_mode), found.st_mtime_ns))

    def _made(self, name: bytes, parent: int, own: bool) -> bool:
        """Make a directory and enter it; False if something is there."""
        place, where = name, parent
        if len(self._open) % DEEP == 0:
            if _is_there(name, parent):
                return False
            place, where = self._free_place(), self._root
        try:
            os.mkdir(place, 0o700, dir_fd=where)
        except FileExistsError:
            return False
        if not own:
            self._imply()
        file = os.open(place, OPEN_DIRECTORY, dir_fd=where)
        made = Open(name, file, 0o755, os.fstat(file).st_mtime_ns)
        if where is not parent:
            made.place, made.above = place, os.dup(parent)
        self._push(made)
        return True

    def _free_place(self) -> bytes:
        """Return a name for a deep directory that is filled before it is moved to its place.

        Landlock goes up to the overlay from whatever is made: that far down it would take minutes.
        """
        while True:
            self._moved += 1
            name = b".boilerhouse-restore-%d" % self._moved
            if not _is_there(name, self._root):
                return name

    def _close_root(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _leave(self) -> None:
        self._open_above()
        here = self._open[-1]
        if here.above >= 0:
            os.rename(here.place, here.name, src_dir_fd=self._root, dst_dir_fd=here.above)
            os.close(here.above)
            here.above = -1
        self._writer.leave(self._open.pop())
        if self._way:
            self._way.pop()

    def _require_settled(self, here: Open, name: bytes) -> None:
        """Wait for the files that are to be made, if that name is one of them."""
        if name in here.under_way:
            self._writer.settle()

    def _parent(self, parts: list[bytes]) -> Open:
        """Enter the directory that something is to be made in."""
        if not parts:
            raise not_the_overlay()
        self._enter(parts[:-1])
        return self._open[-1]

    def _new(self, parts: list[bytes], make: Callable[[bytes, int], None]) -> None:
        """Make something where nothing is, or in place of what an earlier entry put there."""
        here = self._parent(parts)
        name, parent = parts[-1], here.file
        self._require_settled(here, name)
        try:
            make(name, parent)
        except FileExistsError:
            self._make_room(parts)
            make(name, parent)

    def _make_room(self, parts: list[bytes]) -> None:
        """Remove what an earlier entry put where another is to be."""
        self._writer.settle()  # a directory is not empty if its files are still to be made
        parent = self._open[-1].file
        try:
            os.unlink(parts[-1], dir_fd=parent)
        except IsADirectoryError:
            try:
                os.rmdir(parts[-1], dir_fd=parent)
            except OSError:
                raise twice(parts) from None

    def _finish(self, name: bytes, member: Member) -> None:
        """Give what cannot be opened its owner and time."""
        parent = self._open[-1].file
        if self._owners:
            try:
                os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                if error.errno not in NOT_OURS_TO_GIVE:
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


def _is_there(name: bytes, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
