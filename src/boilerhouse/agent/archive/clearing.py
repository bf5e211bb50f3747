"""Emptying overlays: everything below them goes, they stay, and no link is followed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from boilerhouse.agent.archive.failures import Failed
from boilerhouse.agent.archive.header import shown
from boilerhouse.agent.archive.walk import OPEN_DIRECTORY


async def empty(overlays: Mapping[str, Path]) -> None:
    """Remove everything below the overlay directories; `Failed` names what cannot be removed."""
    await asyncio.to_thread(_empty_all, overlays)


class _Level:
    """A directory that is being emptied, and the directories in it that are still there."""

    def __init__(self, file: int, path: bytes, name: bytes) -> None:
        self.file = file
        self.path = path
        self.name = name
        self.left: list[bytes] = []

    def clear(self) -> None:
        """Remove what is no directory, and note the rest."""
        with os.scandir(self.file) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    self.left.append(name)
                else:
                    self.remove(os.unlink, name)

    def remove(self, how: Callable[..., None], name: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):  # somebody was faster
            try:
                try:
                    how(name, dir_fd=self.file)
                except PermissionError:
                    os.fchmod(self.file, 0o700)  # its mode forbade it, and it is about to go
                    how(name, dir_fd=self.file)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    raise _failed(self.path + b"/" + name, error) from error

    def enter(self, name: bytes) -> _Level | None:
        """Open a directory in this one; None if it is gone."""
        path = self.path + b"/" + name
        try:
            try:
                file = os.open(name, OPEN_DIRECTORY, dir_fd=self.file)
            except PermissionError:
                _unlock(name, self.file)
                file = os.open(name, OPEN_DIRECTORY, dir_fd=self.file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(path, error) from error
        return _Level(file, path, name)


def _empty_all(overlays: Mapping[str, Path]) -> None:
    for path, where in overlays.items():
        _empty(os.fsencode(path.strip("/")), where)


def _empty(path: bytes, where: Path) -> None:
    mode = where.lstat().st_mode
    levels = [_Level(os.open(where, OPEN_DIRECTORY), path, b"")]
    try:
        levels[0].clear()
        while levels:
            level = levels[-1]
            if level.left:
                below = level.enter(level.left.pop())
                if below is not None:
                    levels.append(below)
                    below.clear()
                continue
            if len(levels) > 1:
                levels[-2].remove(os.rmdir, level.name)
            else:
                os.fchmod(level.file, stat.S_IMODE(mode))
            os.close(levels.pop().file)
    finally:
        for level in levels:
            os.close(level.file)


def _unlock(name: bytes, parent: int) -> None:
    """Make a directory of ours readable; by a descriptor, so that no link is followed."""
    file = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{file}").chmod(0o700)
    finally:
        os.close(file)


def _failed(path: bytes, error: OSError) -> Failed:
    return Failed("not-emptied", f"{shown(path)} cannot be removed: {error.strerror}")
