"""The tenant's files, read and written from outside the instance.

GET, PUT, DELETE /files?path=… ─► Files ─► overlays (safe walk) ─► the file itself

The blocking calls run in threads: in the embedded world many agents share one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from itertools import islice
from urllib.parse import quote_from_bytes

from boilerhouse.core.clock import token
from boilerhouse.node.agent.freezer.processes import Processes
from boilerhouse.node.agent.overlays import FILE, Overlays, kind, refused
from boilerhouse.node.agent.protocol import BYTES, FILE_LIMIT, LISTING_LIMIT, Entry, Listing
from boilerhouse.platform.rpc.message import Answer, Body, json_answer, too_large
from boilerhouse.platform.rpc.refusal import Refused

_PIECE = 256 << 10


class Files:
    """Verbs on one path each."""

    def __init__(self, overlays: Overlays, processes: Processes) -> None:
        self._overlays = overlays
        self._processes = processes

    async def get(self, path: str) -> Answer:
        """Return a file's content, or a directory's listing as JSON."""
        found = await asyncio.to_thread(self._open, path)
        if isinstance(found, Listing):
            return json_answer(found.encode())
        return Answer(200, found, {"content-type": BYTES})

    async def put(self, path: str, body: Body) -> Answer:
        """Write a file, whole or not at all; missing directories are made.

        An existing file keeps owner and mode. A new one belongs to whom its directory belongs to.
        """
        if body.length is not None and body.length > FILE_LIMIT:
            raise too_large(FILE_LIMIT)
        draft = await asyncio.to_thread(self._draft, path)
        try:
            size = 0
            async for piece in body:
                size += len(piece)
                if size > FILE_LIMIT:
                    raise too_large(FILE_LIMIT)
                await asyncio.to_thread(draft.write, piece)
            await asyncio.to_thread(draft.commit)
        finally:
            await asyncio.to_thread(draft.close)
        return Answer(204)

    async def delete(self, path: str) -> Answer:
        """Remove a file, a link or an empty directory."""
        await asyncio.to_thread(self._remove, path)
        return Answer(204)

    def _open(self, path: str) -> Listing | FileBody:
        if path.rstrip("/") in self._overlays.roots():
            with self._overlays.directory(path) as directory:
                return _listing(directory)
        with self._overlays.parent(path) as (parent, name):
            try:
                # Looked at before it is opened: opening a device can do things.
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    with self._overlays.directory(path) as directory:
                        return _listing(directory)
                if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
                    raise _not_a_file(path)
                return _file(os.open(name, FILE, dir_fd=parent), path)
            except OSError as error:
                raise refused(error, path) from None

    def _draft(self, path: str) -> Draft:
        def make(parent: int, name: str) -> None:
            os.mkdir(name, 0o755, dir_fd=parent)
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            try:
                _give(made, self._owner(parent))
            finally:
                os.close(made)

        with self._overlays.parent(path, make) as (parent, name):
            return Draft(os.dup(parent), name, path, self._owner(parent))

    def _remove(self, path: str) -> None:
        with self._overlays.parent(path) as (parent, name):
            try:
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    os.rmdir(name, dir_fd=parent)
                else:
                    os.unlink(name, dir_fd=parent)
            except OSError as error:
                raise refused(error, path) from None

    def _owner(self, directory: int) -> tuple[int, int]:
        """Whose a new file in this directory is to be.

        Kubelet makes overlay directories as root, for everybody to write: there, the tenant's
        oldest process says who the tenant is.
        """
        found = os.fstat(directory)
        if found.st_uid == 0:
            for process in self._processes.of_tenant():
                return process.uid, process.gid
        return found.st_uid, found.st_gid


class Draft:
    """A file that is being written beside the one it will replace."""

    def __init__(self, parent: int, name: str, path: str, owner: tuple[int, int]) -> None:
        self._parent = parent
        self._name = name
        self._path = path
        self._owner = owner
        self._mode = 0o644
        self._draft = f".boilerhouse-{token(9)}"
        self._file: int | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            there = os.stat(self._name, dir_fd=self._parent, follow_symlinks=False)
        except FileNotFoundError:
            pass
        else:
            if not stat.S_ISREG(there.st_mode):
                raise _not_a_file(self._path)
            self._mode = stat.S_IMODE(there.st_mode) & 0o777  # never setuid on new content
            self._owner = there.st_uid, there.st_gid
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.open(self._draft, flags, 0o600, dir_fd=self._parent)
        except OSError as error:
            raise refused(error, self._path) from None

    def write(self, piece: bytes) -> None:
        assert self._file is not None
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise refused(error, self._path) from None

    def commit(self) -> None:
        """Put it in place. A link of that name is replaced, not followed."""
        assert self._file is not None
        try:
            _give(self._file, self._owner)
            os.fchmod(self._file, self._mode)
            os.rename(self._draft, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError as error:
            raise refused(error, self._path) from None
        os.close(self._file)
        self._file = None

    def close(self) -> None:
        """Leave nothing behind, if it was not committed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with contextlib.suppress(FileNotFoundError):  # the tenant was faster
                os.unlink(self._draft, dir_fd=self._parent)
        os.close(self._parent)


class FileBody(Body):
    """An open file, as long as it was when it was opened."""

    def __init__(self, file: int, length: int) -> None:
        self.length = length
        self._file: int | None = file
        self._left = length

    async def __anext__(self) -> bytes:
        if not self._left or self._file is None:
            raise StopAsyncIteration
        piece = await asyncio.to_thread(os.read, self._file, min(self._left, _PIECE))
        if not piece:
            raise StopAsyncIteration  # it was cut meanwhile: too short, which the frame tells
        self._left -= len(piece)
        return piece

    async def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _file(file: int, path: str) -> FileBody:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise _not_a_file(path)
    return FileBody(file, found.st_size)


def _not_a_file(path: str) -> Refused:
    return Refused(409, "not-a-file", f"{path!a} is not a regular file")


def _listing(directory: int) -> Listing:
    with os.scandir(directory) as names:
        found = list(islice(names, LISTING_LIMIT + 1))
        entries = [entry for name in found[:LISTING_LIMIT] if (entry := _entry(name)) is not None]
    entries.sort(key=lambda entry: entry.name)
    return Listing(tuple(entries), len(found) > LISTING_LIMIT)


def _entry(found: os.DirEntry[str]) -> Entry | None:
    try:
        about = found.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # it went while we looked
    raw = os.fsencode(found.name)
    name = raw.decode("utf-8", "replace")
    escaped = None if name.encode() == raw else quote_from_bytes(raw)
    mode = about.st_mode
    return Entry(name, kind(mode), about.st_size, stat.S_IMODE(mode), about.st_mtime_ns, escaped)


def _give(file: int, owner: tuple[int, int]) -> None:
    found = os.fstat(file)
    if (found.st_uid, found.st_gid) != owner:
        os.fchown(file, *owner)
