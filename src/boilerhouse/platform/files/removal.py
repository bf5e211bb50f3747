"""Removing everything below a directory, whatever its depth, its names and its modes.

    descriptor ─► remove_below ─► directory by directory, the deepest first

A directory that lies too deep is moved up to the top before it is emptied, so that a tree of a
million levels costs no more descriptors and memory than one of a hundred. No path name is given to
the kernel, no link is followed. What cannot be removed is left, and everything else goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable

from boilerhouse.platform.files.descent import OPEN_DIRECTORY

_DEEPEST = 100  # levels that are open at once
_BATCH = 2_000  # directories of one directory whose names are held
_STUCK = 1_000  # things that cannot be removed, until the rest is not tried
_MOVED = (errno.EXDEV, errno.EBUSY, errno.EINVAL)  # it cannot be moved up: entered where it is


class Interrupted(Exception):
    """There is more to be removed, and the caller did not want to go on."""


class NotRemoved(OSError):
    """Something is still there: `where` says what, from the top on; the error is the kernel's."""

    def __init__(self, error: OSError, where: list[str], more: int) -> None:
        super().__init__(error.errno, error.strerror)
        self.where = where
        self.more = more  # that many besides

    def __str__(self) -> str:
        others = f", and {self.more} more" if self.more else ""
        return f"{shortened(self.where)} cannot be removed: {self.strerror}{others}"


def shortened(names: list[str]) -> str:
    """Return a path for people, however long it is."""
    text = ascii("/".join(names if len(names) <= 20 else [*names[:10], "…", *names[-10:]]))
    return text if len(text) <= 200 else f"{text[:100]}…{text[-90:]}"


def remove_below(top: int, go_on: Callable[[], bool] | None = None) -> None:
    """Remove what is in a directory, given by its descriptor; raises `NotRemoved` in the end.

    What another removes meanwhile is no failure. The directory's own mode may be changed. Where
    `go_on`, which is asked often, says no, it raises `Interrupted`: called again, it goes on.
    """
    _Removal(top, go_on or _always).run()


def _always() -> bool:
    return True


class _Level:
    """A directory that is being emptied, and the directories in it that are still to go."""

    def __init__(self, file: int, name: str) -> None:
        self.file = file
        self.name = name
        self.left: list[str] = []
        self.stuck: set[str] = set()
        self.more = True  # it is to be read (again)
        self.gone = 0  # entries that were removed since it was last read


class _Removal:
    def __init__(self, top: int, go_on: Callable[[], bool]) -> None:
        self._levels = [_Level(top, "")]
        self._go_on = go_on
        self._failures: list[tuple[OSError, list[str]]] = []
        self._failed = 0

    def run(self) -> None:
        levels = self._levels
        try:
            while levels:
                if not self._go_on():
                    raise Interrupted
                level = levels[-1]
                if level.left:
                    self._descend(level, level.left.pop())
                elif level.more:
                    self._read(level)
                else:
                    self._ascend()
        finally:
            for level in levels[1:]:
                os.close(level.file)
        if self._failures:
            raise NotRemoved(*self._failures[0], self._failed - 1)

    def _read(self, level: _Level) -> None:
        """Remove what is no directory; note directories, as many as may be held."""
        level.more, level.gone = False, 0
        try:
            with os.scandir(level.file) as entries:
                for entry in entries:
                    if entry.name in level.stuck:
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        if not self._go_on():
                            raise Interrupted
                        self._remove(level, entry.name)
                    elif len(level.left) < _BATCH:
                        level.left.append(entry.name)
                    else:
                        level.more = True
                        break
        except OSError as error:
            self._fail(error, None)

    def _descend(self, level: _Level, name: str) -> None:
        if len(self._levels) > _DEEPEST and self._move_up(level, name):
            return
        try:
            file = _open(level.file, name)
        except FileNotFoundError:
            level.gone += 1
        except NotADirectoryError:
            level.more = True  # exchanged meanwhile
        except OSError as error:
            level.stuck.add(name)
            self._fail(error, name)
        else:
            self._levels.append(_Level(file, name))

    def _move_up(self, level: _Level, name: str) -> bool:
        """Put a directory that lies deep into the topmost one, which is read again for it."""
        top = self._levels[0]
        fresh = f".removed-{secrets.token_hex(8)}"

        def move(name: str, *, dir_fd: int) -> None:
            os.rename(name, fresh, src_dir_fd=dir_fd, dst_dir_fd=top.file)

        try:
            _insist(move, level.file, name)
        except FileNotFoundError:
            level.gone += 1
            return True
        except OSError as error:
            if error.errno in _MOVED:
                return False
            level.stuck.add(name)
            self._fail(error, name)
            return True
        level.gone += 1
        top.more = True
        return True

    def _ascend(self) -> None:
        level = self._levels.pop()
        if not self._levels:
            return
        above = self._levels[-1]
        try:
            if level.stuck:
                above.stuck.add(level.name)
                return
            _insist(os.rmdir, above.file, level.name)
            above.gone += 1
        except FileNotFoundError:
            above.gone += 1
        except OSError as error:
            if error.errno == errno.ENOTEMPTY and level.gone:
                level.more = True  # some file systems skip names while others are removed
                self._levels.append(level)
                return
            above.stuck.add(level.name)
            self._fail(error, level.name)
        finally:
            if level not in self._levels:
                os.close(level.file)

    def _remove(self, level: _Level, name: str) -> None:
        try:
            _insist(os.unlink, level.file, name)
            level.gone += 1
        except FileNotFoundError:
            level.gone += 1
        except OSError as error:
            level.stuck.add(name)
            self._fail(error, name)

    def _fail(self, error: OSError, name: str | None) -> None:
        where = [level.name for level in self._levels[1:]]
        if name is None:
            self._levels[-1].stuck.add("")
        else:
            where.append(name)
        self._failed += 1
        if not self._failures:
            self._failures.append((error, where))
        if self._failed >= _STUCK:
            raise NotRemoved(*self._failures[0], self._failed - 1)


def _insist(how: Callable[..., None], directory: int, name: str) -> None:
    """Do something to a name; where modes forbid it, change them: all of it is about to go."""
    try:
        how(name, dir_fd=directory)
    except PermissionError:
        with contextlib.suppress(OSError):
            os.fchmod(directory, 0o700)
        with contextlib.suppress(OSError):
            _unlock(directory, name)
        how(name, dir_fd=directory)


def _open(directory: int, name: str) -> int:
    try:
        return os.open(name, OPEN_DIRECTORY, dir_fd=directory)
    except PermissionError:
        _unlock(directory, name)
        return os.open(name, OPEN_DIRECTORY, dir_fd=directory)


def _unlock(directory: int, name: str) -> None:
    """Make a directory of ours usable; by a descriptor, so that no link is followed."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{file}", 0o700)  # noqa: PTH101
    finally:
        os.close(file)
