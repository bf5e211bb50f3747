"""Unpacks one image layer, which may have been made to harm, into a directory of its own.

    tar stream ─► entries ─► openat2 inside the directory ─► files, links, directories
                                           └─► whiteouts as overlayfs spells them

Every path is resolved by the kernel as if the directory were the root, so no name and no chain of
links can lead out of it. Devices, FIFOs and sockets are left out, set-id bits dropped, and all
files belong to whoever unpacks (image users are mapped when a container starts). Sizes and counts
are bounded before anything is written.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from boilerhouse.embedded.kubelet.kernel import linux
from boilerhouse.platform.files.removal import remove_below

_CHUNK = 1024 * 1024
_HEADER_BYTES = 1024 * 1024
_UNSYNCED = 32 * 1024 * 1024
_DEPTH = 200
_NEGATIVE = "the archive has a header with a negative size"
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_OPAQUE_ATTRIBUTE = "user.overlay.opaque"


class BadImage(Exception):
    """An image that is broken, or larger than we take; the message says which."""


@dataclass(slots=True)
class Budget:
    """What an image may still take: entries and bytes over all its layers."""

    entries: int = 1_000_000
    bytes: int = 20 * 1024**3
    unsynced: int = 0  # bytes written since the file system was last synced

    def spend(self, size: int) -> None:
        self.entries -= 1
        self.bytes -= size
        if self.entries < 0:
            raise BadImage("the image has more than a million files")
        if self.bytes < 0:
            raise BadImage("the image is larger than 20 GiB unpacked")


class Header(tarfile.TarInfo):
    """A tar header that may have been made to harm; refused before `tarfile` acts on it.

    `tarfile` reads extended headers into memory, goes backwards, and so round and round, where a
    size is negative (CVE-2025-8194), and follows the maps of sparse files, which no image has.
    """

    def _bounded(self) -> None:
        if self.size > _HEADER_BYTES:
            raise BadImage("the archive has an oversized header")

    def _block(self, count: int) -> int:
        if count < 0:
            raise BadImage(_NEGATIVE)
        blocks: int = super()._block(count)  # type: ignore[misc]  # not in the stubs
        return blocks

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._bounded()
        found: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]  # not in the stubs
        if found.size < 0:  # which a pax record may say, too
            raise BadImage(_NEGATIVE)
        return found

    def _proc_gnulong(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._bounded()
        found: tarfile.TarInfo = super()._proc_gnulong(archive)  # type: ignore[misc]  # not in the stubs
        return found

    def _proc_sparse(self, *_: object) -> tarfile.TarInfo:
        raise BadImage("the archive has a sparse file, which images do not have")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _proc_sparse


def members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Read the members one by one; `tarfile` would keep half a kilobyte of each."""
    try:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # not in the stubs
            if member.size < 0:  # of what has no content
                raise BadImage(_NEGATIVE)
            yield member
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        # Headers without end that each announce the next one are read by recursion.
        raise BadImage(f"this is not a readable tar archive: {error}") from error


def unpack(source: BinaryIO, directory: Path, budget: Budget) -> None:
    """Unpack a layer's tar stream into an empty directory."""
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with tarfile.open(fileobj=source, mode="r|", tarinfo=Header) as archive:
            for entry in members(archive):
                budget.spend(entry.size if entry.isreg() else 0)
                budget.unsynced += entry.size if entry.isreg() else 0
                if budget.unsynced > _UNSYNCED:
                    # Or the commits of everybody else wait for gigabytes of ours.
                    linux.sync_file_system(root)
                    budget.unsynced = 0
                try:
                    _place(root, archive, entry)
                except (OSError, ValueError, OverflowError) as error:
                    raise BadImage(f"{entry.name!r} cannot be unpacked: {error}") from error
    except (tarfile.TarError, EOFError) as error:
        raise BadImage(f"a layer is not a readable tar archive: {error}") from error
    finally:
        os.close(root)


def _place(root: int, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
    parts = [part for part in entry.name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("the name leads upwards")
    if not parts:
        os.fchmod(root, entry.mode & 0o777 | 0o700)
        return
    name = parts[-1]
    parent = _directory(root, parts[:-1])
    try:
        if name == _OPAQUE:
            os.setxattr(f"/proc/self/fd/{parent}", _OPAQUE_ATTRIBUTE, b"y")
        elif name.startswith(_WHITEOUT):
            _whiteout(parent, name.removeprefix(_WHITEOUT))
        else:
            _create(root, parent, name, archive, entry)
    finally:
        os.close(parent)


def _create(
    root: int, parent: int, name: str, archive: tarfile.TarFile, entry: tarfile.TarInfo
) -> None:
    if entry.isdir():
        _make_directory(parent, name, entry)
        return
    _clear(parent, name)
    if entry.issym():
        os.symlink(entry.linkname, name, dir_fd=parent)
    elif entry.islnk():
        _link(root, parent, name, entry.linkname)
    elif entry.isreg():
        _write(parent, name, archive, entry)
    # Devices, FIFOs: nothing in an image needs them, /dev is the sandbox's own.


def _make_directory(parent: int, name: str, entry: tarfile.TarInfo) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        if not _is_directory(parent, name):
            _clear(parent, name)
            os.mkdir(name, dir_fd=parent)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        # Its owner must be able to enter: overlayfs reads layers with the owner's rights.
        os.fchmod(made, entry.mode & 0o1777 | 0o700)
        os.utime(made, (entry.mtime, entry.mtime))
    finally:
        os.close(made)


def _write(parent: int, name: str, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
    content = archive.extractfile(entry)
    if content is None:
        raise ValueError("it has no content")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=parent)
    try:
        while chunk := content.read(_CHUNK):
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
        os.fchmod(fd, entry.mode & 0o777 | 0o400)
        os.utime(fd, (entry.mtime, entry.mtime))
    finally:
        os.close(fd)


def _link(root: int, parent: int, name: str, target: str) -> None:
    """Make a hard link to a file of this layer; the target's own name is not followed."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise ValueError(f"it is a link to {target!r}")
    source = _existing(root, parts[:-1])
    try:
        os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        os.close(source)


def _whiteout(parent: int, name: str) -> None:
    """Hide a file of the layers below: to overlayfs a device 0/0, which anybody may make."""
    if not name or name in (".", ".."):
        raise ValueError("it hides nothing")
    _clear(parent, name)
    os.mknod(name, 0o020000, os.makedev(0, 0), dir_fd=parent)


def _directory(root: int, parts: list[str]) -> int:
    """Open a directory inside the layer, making what is missing; links stay inside."""
    if len(parts) > _DEPTH:
        raise ValueError("it lies too deep")
    try:
        return _existing(root, parts)
    except FileNotFoundError:
        pass
    at = os.dup(root)
    for number, name in enumerate(parts, 1):
        here = "/".join(parts[:number])
        try:
            found = linux.open_beneath(root, here, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            os.mkdir(name, 0o755, dir_fd=at)
            found = linux.open_beneath(root, here, os.O_RDONLY | os.O_DIRECTORY)
        os.close(at)
        at = found
    return at


def _existing(root: int, parts: list[str]) -> int:
    if not parts:
        return os.dup(root)
    return linux.open_beneath(root, "/".join(parts), os.O_RDONLY | os.O_DIRECTORY)


def _is_directory(parent: int, name: str) -> bool:
    try:
        os.close(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent))
    except OSError:
        return False
    return True


def _clear(parent: int, name: str) -> None:
    """Make way for an entry that replaces an earlier one."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        _remove_tree(parent, name)


def _remove_tree(parent: int, name: str) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        remove_below(fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
