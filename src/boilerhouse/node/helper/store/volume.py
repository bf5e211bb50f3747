"""The volume: one directory that is ours alone, and the few things that are done to it.

Volume.open ─► lock ─► probes ─► leftovers swept ─► descend, incoming, link, rename, sync ─► close

Everything here blocks: it is called from threads. Names are opened one component at a time, each
relative to its parent's descriptor and without following links.

What survives a loss of power: a file's bytes after an fsync of the file, a name after an fsync of
its directory, and nothing else. A directory that cannot be synced is the end: the kernel forgets
what it could not write, so whether anything that we promise from then on is true cannot be known.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from boilerhouse.core.clock import token
from boilerhouse.node.helper.store import places
from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

BLOCK = 512 << 10

_PATIENCE = 30.0  # seconds for the helper before us to let go
_LOOK = 0.05


class VolumeUnfit(Exception):
    """This directory cannot hold snapshots; the message says why, and what to do."""


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Make what the file system says into an answer that says what to do."""
    try:
        yield
    except OSError as error:
        raise _answer(error) from error


def _answer(error: OSError) -> Refused:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refused(
            507,
            "volume-full",
            "the volume of the snapshots is full: delete versions, or make it larger",
        )
    return Refused(500, "volume-failed", f"the volume of the snapshots does not work: {error}")


class Volume:
    """An open volume. Made by `open`."""

    def __init__(self, root: int, lock: int) -> None:
        self.root = root
        self.versions = enter(root, places.VERSIONS, make=True)
        self.unfinished = enter(root, places.UNFINISHED, make=True)
        self._open = [self.unfinished, self.versions, root, lock]
        self._failed = ""

    @classmethod
    def open(cls, directory: Path, patience: float = _PATIENCE) -> Volume:
        """Take the volume, as soon as nobody else has it; `VolumeUnfit` if it will not do."""
        root = os.open(directory, DIRECTORY)
        lock = -1
        try:
            lock = os.open(places.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=root)
            _take(lock, directory, patience)
            volume = cls(root, lock)
        except BaseException:
            for opened in (lock, root):
                if opened >= 0:
                    os.close(opened)
            raise
        try:
            volume.sweep()
            _probe(volume.unfinished)
            # What an earlier helper renamed before it was killed may be in memory alone.
            volume.sync(volume.versions)
            volume.sync(root)
            _sync_above(directory)
        except BaseException:
            volume.close()
            raise
        return volume

    def close(self) -> None:
        """Let go of the volume. Again does no harm."""
        while self._open:
            os.close(self._open.pop(0))

    def check(self) -> None:
        """Raise `Refused` if a sync has failed: nothing can be promised any more."""
        if self._failed:
            raise Refused(503, "volume-failed", self._failed)

    def sync(self, directory: int) -> None:
        """Make the names in a directory durable."""
        try:
            os.fsync(directory)
        except OSError as error:
            self._failed = f"the volume of the snapshots lost writes ({error}): look after its disk"
            raise Refused(503, "volume-failed", self._failed) from error

    @contextlib.contextmanager
    def descend(self, parent: int, *names: str) -> Iterator[int]:
        """Open a directory below another; `FileNotFoundError` if it is not there."""
        with contextlib.ExitStack() as stack:
            current = parent
            for name in names:
                current = enter(current, name)
                stack.callback(os.close, current)
            yield current

    @contextlib.contextmanager
    def made(self, parent: int, *names: str) -> Iterator[int]:
        """Open a directory below another, made durably on the way if it is not there."""
        with contextlib.ExitStack() as stack:
            current = parent
            for name in names:
                try:
                    below = enter(current, name)
                except FileNotFoundError:
                    below = enter(current, name, make=True)
                    stack.callback(os.close, below)
                    self.sync(current)
                else:
                    stack.callback(os.close, below)
                current = below
            yield current

    def incoming(self) -> Incoming:
        """Begin a file that is not in place yet."""
        return Incoming(self.unfinished)

    def sweep(self) -> None:
        """Remove what was not finished."""
        for name in names(self.unfinished):
            try:
                self.remove(name)
            except OSError as error:  # no reason for the helper not to start
                log.warning("%s, which was not finished, cannot be removed: %s", name, error)

    def remove(self, name: str) -> None:
        """Remove an unfinished file, or a directory that was moved there to be forgotten."""
        try:
            os.unlink(name, dir_fd=self.unfinished)
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=self.unfinished)


class Incoming:
    """A file on its way in: written, synced, read again, and then put in place or discarded.

    One thread writes while another may discard: a helper that stops does not wait for an upload.
    """

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self.name = token(12)
        self.size = 0
        self._hash = hashlib.sha256()
        self._guard = threading.Lock()
        self._file = os.open(self.name, NEW, 0o600, dir_fd=directory)

    @property
    def digest(self) -> str:
        """Return the hash of what was written so far."""
        return self._hash.hexdigest()

    def write(self, *pieces: bytes) -> None:
        with self._guard, clear_errors():
            for piece in pieces:
                left = memoryview(piece)
                while left:
                    left = left[os.write(self._file, left) :]
                self._hash.update(piece)
                self.size += len(piece)

    def settle(self) -> None:
        """Make the bytes durable, and see for oneself that they are what was written."""
        with self._guard, clear_errors():
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1
            read = self.reopen()
            try:
                # Off the cache, so that it is the disk which is asked.
                os.posix_fadvise(read, 0, 0, os.POSIX_FADV_DONTNEED)
                found = digest_of(read)
            finally:
                os.close(read)
        if found != (self.digest, self.size):
            raise Refused(500, "verify-failed", "what was stored reads differently: not used")

    def reopen(self) -> int:
        """Open it to be read."""
        return os.open(self.name, FILE, dir_fd=self._directory)

    def discard(self) -> None:
        """Leave nothing behind, unless it was put in place."""
        with self._guard:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._directory)


def names(directory: int) -> list[str]:
    """Return the names in an open directory."""
    with os.scandir(directory) as found:
        return [entry.name for entry in found]


def digest_of(file: int) -> tuple[str, int]:
    """Return hash and size of an open file, from where it stands."""
    running, size = hashlib.sha256(), 0
    while piece := os.read(file, BLOCK):
        running.update(piece)
        size += len(piece)
    return running.hexdigest(), size


def enter(parent: int, name: str, make: bool = False) -> int:
    """Open a directory in another."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
    return os.open(name, DIRECTORY, dir_fd=parent)


def _sync_above(directory: Path) -> None:
    """Make the volume's own name durable, where it is a directory that was just made."""
    above = os.open(directory.resolve().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)
    except OSError as error:
        # A mount point in a container: the name is not ours to keep.
        log.info("what %s is in cannot be synced: %s", directory, error)
    finally:
        os.close(above)


def _take(lock: int, directory: Path, patience: float) -> None:
    pause = threading.Event()
    for _ in range(max(1, round(patience / _LOOK))):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_LOOK)
        else:
            return
    raise VolumeUnfit(f"{directory} is held by another snapshot helper, which does not let go")


def _probe(directory: int) -> None:
    """Try what the store relies on; `VolumeUnfit` names what is missing."""
    name = f"Probe-{token(6)}-\u00e9"
    os.close(os.open(name, NEW, 0o600, dir_fd=directory))
    try:
        _probe_links(directory, name)
        for other, why in (
            (name.swapcase(), "does not tell upper from lower case"),
            (name.replace("\u00e9", "e\u0301"), "does not tell ways to write one letter apart"),
        ):
            with contextlib.suppress(FileNotFoundError):
                os.stat(other, dir_fd=directory, follow_symlinks=False)
                raise VolumeUnfit(f"the volume {why}: two tenants could share one file. {_USE}")
        if name not in names(directory):
            raise VolumeUnfit(f"the volume changes the names of files. {_USE}")
    finally:
        os.unlink(name, dir_fd=directory)
    long = "n" * 255
    try:
        os.close(os.open(long, NEW, 0o600, dir_fd=directory))
    except OSError as error:
        raise VolumeUnfit(f"the volume does not take long names ({error}). {_USE}") from error
    os.unlink(long, dir_fd=directory)


def _probe_links(directory: int, name: str) -> None:
    second = f"{name}-2"
    try:
        os.link(name, second, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        raise VolumeUnfit(f"the volume has no hard links ({error}). {_USE}") from error
    try:
        one, two = (os.stat(each, dir_fd=directory).st_ino for each in (name, second))
    finally:
        os.unlink(second, dir_fd=directory)
    if one != two:
        raise VolumeUnfit(f"the volume makes copies where hard links are asked for. {_USE}")


_USE = "Use a volume with a file system such as ext4, XFS or btrfs."
