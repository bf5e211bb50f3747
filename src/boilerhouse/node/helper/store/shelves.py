"""One tenant's workload on the volume: reading what is there, adding to it, taking away.

load ─► Shelf        place (version, durable) ─► point (the commit) ─► prune        forget

**The commit.** A version is an archive and its manifest, both synced, under names of their own
that are synced too. Only then a second name of the archive's inode is made, and renamed onto
<tenant>/<workload>.tar.gz: before that rename the old version is current, after it the new one is,
and there is no moment at which neither or half of one is. The directory is synced before anybody is
told. Which version is current is not written anywhere else: it is the one with that inode.

Callers hold the tenant's lock. Whatever a crash left half-done is put right by the next `load`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace

from boilerhouse.core.clock import token
from boilerhouse.node.helper.store import places
from boilerhouse.node.helper.store.manifest import Manifest, Shelf, Stored
from boilerhouse.node.helper.store.places import ARCHIVE, KEPT, MANIFEST, Place
from boilerhouse.node.helper.store.volume import FILE, Incoming, Volume, digest_of, names

log = logging.getLogger(__name__)

_MANIFEST_LIMIT = 64 << 10


class Shelves:
    """The verbs on one place each. `now` says what time it is, as text."""

    def __init__(self, volume: Volume, now: Callable[[], str]) -> None:
        self._volume = volume
        self._now = now

    def load(self, where: Place) -> Shelf:
        """Look at what is there; make it durable, adopt what has no version, drop leftovers.

        Durable first: an earlier helper may have been killed between a rename and its sync, and
        what is told to anybody must not be gone after a loss of power.
        """
        volume = self._volume
        inode = self._current_inode(where)
        try:
            with volume.descend(volume.versions, where.tenant) as tenant:
                volume.sync(tenant)
                with volume.descend(tenant, where.workload) as directory:
                    volume.sync(directory)
                    shelf = self._read(directory, inode)
        except FileNotFoundError:
            shelf = Shelf()
        if inode is None or shelf.current is not None:
            return shelf
        return self._adopt(where, shelf)

    def place(
        self, where: Place, incoming: Incoming, manifest: Manifest, shelf: Shelf
    ) -> tuple[Shelf, Stored]:
        """Make a settled file a version: durable, and not current yet."""
        stored = Stored(shelf.next_seq, manifest)
        with self._made(where) as directory:
            self._write_manifest(directory, stored)
            os.rename(
                incoming.name,
                stored.stem + ARCHIVE,
                src_dir_fd=self._volume.unfinished,
                dst_dir_fd=directory,
            )
            self._volume.sync(directory)
        return replace(shelf, versions=(*shelf.versions, stored)), stored

    def place_again(
        self, where: Place, source: Stored, manifest: Manifest, shelf: Shelf
    ) -> tuple[Shelf, Stored]:
        """Make a version with the bytes of another: a second name of the same file."""
        stored = Stored(shelf.next_seq, manifest)
        with self._made(where) as directory:
            self._write_manifest(directory, stored)
            _link(directory, source.stem + ARCHIVE, directory, stored.stem + ARCHIVE)
            self._volume.sync(directory)
        return replace(shelf, versions=(*shelf.versions, stored)), stored

    def point(self, where: Place, stored: Stored, shelf: Shelf) -> Shelf:
        """Commit: make a version current."""
        volume = self._volume
        with (
            volume.made(volume.root, where.tenant) as tenant,
            volume.descend(volume.versions, *where) as directory,
        ):
            self._rename_link(directory, stored.stem + ARCHIVE, tenant, where.workload + ARCHIVE)
            volume.sync(tenant)
        return replace(shelf, current=stored)

    def drop(self, where: Place, shelf: Shelf, *gone: Stored, for_good: bool = False) -> Shelf:
        """Remove versions. Archive first: a manifest alone is a leftover to the next `load`.

        `for_good`: they are gone when this returns. Without, a loss of power may bring them back,
        which does no harm to what was only pruned: it is again.
        """
        with self._volume.descend(self._volume.versions, *where) as directory:
            for one in gone:
                for ending in (ARCHIVE, MANIFEST, KEPT):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(one.stem + ending, dir_fd=directory)
            if for_good:
                self._volume.sync(directory)
        return replace(shelf, versions=tuple(one for one in shelf.versions if one not in gone))

    def exempt(self, where: Place, shelf: Shelf, stored: Stored) -> Shelf:
        """See to it that a version is never pruned."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._volume.descend(self._volume.versions, *where) as directory:
            os.close(os.open(stored.stem + KEPT, flags, 0o600, dir_fd=directory))
            self._volume.sync(directory)
        kept = replace(stored, exempt=True)
        versions = tuple(kept if one == stored else one for one in shelf.versions)
        return Shelf(versions, kept if shelf.current == stored else shelf.current)

    def forget(self, where: Place) -> None:
        """Remove all of it. No current first: from then on there is nothing to restore."""
        volume = self._volume
        with contextlib.suppress(FileNotFoundError):
            with volume.descend(volume.root, where.tenant) as tenant:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(where.workload + ARCHIVE, dir_fd=tenant)
                volume.sync(tenant)
            _remove_empty(volume.root, where.tenant)
        grave = token(12)
        with contextlib.suppress(FileNotFoundError):
            with volume.descend(volume.versions, where.tenant) as tenant:
                os.rename(where.workload, grave, src_dir_fd=tenant, dst_dir_fd=volume.unfinished)
                volume.sync(tenant)
            _remove_empty(volume.versions, where.tenant)
            volume.remove(grave)
        volume.sync(volume.versions)
        volume.sync(volume.root)

    def open(self, where: Place, stored: Stored) -> int:
        """Open a version's archive to be read; it stays readable if it is pruned meanwhile."""
        with self._volume.descend(self._volume.versions, *where) as directory:
            return os.open(stored.stem + ARCHIVE, FILE, dir_fd=directory)

    def workloads(self, tenant: str) -> list[str]:
        """Return the workloads of which a tenant has anything, by name."""
        found = {places.workload_of(name) for name in self._names(self._volume.root, tenant)}
        found |= {
            name for name in self._names(self._volume.versions, tenant) if places.is_workload(name)
        }
        return sorted(name for name in found if name is not None)

    def _names(self, parent: int, tenant: str) -> list[str]:
        try:
            with self._volume.descend(parent, tenant) as directory:
                return names(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError:
            if tenant == "lost+found":  # the file system's own
                return []
            raise

    def _made(self, where: Place) -> contextlib.AbstractContextManager[int]:
        return self._volume.made(self._volume.versions, *where)

    def _rename_link(self, source: int, name: str, target: int, onto: str) -> None:
        """Make `onto` another name of a file, in one step whatever it was before."""
        unfinished, link = self._volume.unfinished, token(12)
        _link(source, name, unfinished, link)
        try:
            os.rename(link, onto, src_dir_fd=unfinished, dst_dir_fd=target)
        finally:
            # A rename onto another name of the same file does nothing, and leaves both.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link, dir_fd=unfinished)

    def _write_manifest(self, directory: int, stored: Stored) -> None:
        draft = self._volume.incoming()
        try:
            draft.write(stored.manifest.encode())
            draft.settle()
            os.rename(
                draft.name,
                stored.stem + MANIFEST,
                src_dir_fd=self._volume.unfinished,
                dst_dir_fd=directory,
            )
        finally:
            draft.discard()

    def _current_inode(self, where: Place) -> int | None:
        volume = self._volume
        try:
            with volume.descend(volume.root, where.tenant) as tenant:
                volume.sync(tenant)  # that it is not there is told as well
                found = os.stat(where.workload + ARCHIVE, dir_fd=tenant, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_ino if stat.S_ISREG(found.st_mode) else None

    def _read(self, directory: int, inode: int | None) -> Shelf:
        """Read the manifests; what has no archive is what a crash left of a version."""
        files = {name: file for name in names(directory) if (file := places.version_file(name))}
        archives = {
            name.removesuffix(ARCHIVE): os.stat(name, dir_fd=directory, follow_symlinks=False)
            for name, file in files.items()
            if file.ending == ARCHIVE
        }
        # An archive without a manifest was never promised to anybody, unless it is current and
        # that is its only version.
        told = {about.st_ino for stem, about in archives.items() if stem + MANIFEST in files}
        found: list[Stored] = []
        current: Stored | None = None
        for stem, about in archives.items():
            name = stem + ARCHIVE
            file = files[name]
            if stem + MANIFEST not in files and (about.st_ino != inode or inode in told):
                os.unlink(name, dir_fd=directory)
                continue
            manifest = self._manifest(directory, stem, file.digest, about.st_size)
            stored = Stored(file.seq, manifest, exempt=stem + KEPT in files)
            found.append(stored)
            # Of two names of one file the newer is meant: a version that was made current again.
            if about.st_ino == inode and (current is None or current.seq < stored.seq):
                current = stored
        stems = {one.stem for one in found}
        for name, file in files.items():
            if file.ending != ARCHIVE and name.removesuffix(file.ending) not in stems:
                os.unlink(name, dir_fd=directory)
        return Shelf(tuple(sorted(found, key=lambda one: one.seq)), current)

    def _manifest(self, directory: int, stem: str, digest: str, size: int) -> Manifest:
        """Read a manifest. What the archive's own name says holds; the rest can be lost."""
        try:
            file = os.open(stem + MANIFEST, FILE, dir_fd=directory)
            try:
                manifest = Manifest.decode(os.read(file, _MANIFEST_LIMIT))
            finally:
                os.close(file)
            return replace(manifest, digest=digest)
        except (FileNotFoundError, ValueError) as error:
            log.error("the manifest of %s cannot be read: %s", stem, error)
            return self._imported(digest, size)

    def _imported(self, digest: str, size: int) -> Manifest:
        return Manifest(digest, size, 0, 0, "", (), self._now(), "", "import")

    def _adopt(self, where: Place, shelf: Shelf) -> Shelf:
        """Make a version of a current file that has none, as after a copy without hard links."""
        volume = self._volume
        with (
            volume.descend(volume.root, where.tenant) as tenant,
            self._made(where) as directory,
        ):
            name = where.workload + ARCHIVE
            file = os.open(name, FILE, dir_fd=tenant)
            try:
                os.fsync(file)  # nobody knows how it came here
                digest, size = digest_of(file)
            finally:
                os.close(file)
            log.warning("adopting %s of %s, which has no version: %s", name, where.tenant, digest)
            same = shelf.newest(digest)
            if same is None:
                stored = Stored(shelf.next_seq, self._imported(digest, size))
                self._write_manifest(directory, stored)
                _link(tenant, name, directory, stored.stem + ARCHIVE)
                shelf = replace(shelf, versions=(*shelf.versions, stored))
            else:
                stored = same
                self._rename_link(tenant, name, directory, stored.stem + ARCHIVE)
            volume.sync(directory)
        return replace(shelf, current=stored)


def _link(source: int, name: str, target: int, second: str) -> None:
    os.link(name, second, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)


def _remove_empty(parent: int, name: str) -> None:
    with contextlib.suppress(OSError):  # another workload's files are in it
        os.rmdir(name, dir_fd=parent)
