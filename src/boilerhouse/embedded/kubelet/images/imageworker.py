"""The process that unpacks an archive of images: beside the event loop, with bounds of its own.

importing.py ─► job on stdin ─► limits ─► archive ─► staging directory ─► report on stdout

An archive may be made to harm, and unpacking is Python's own work, which would hold up everybody in
a thread as well. So it is done here: with a bound on memory, processor time, entries and bytes. It
touches nothing but its staging directory, and dies with its parent.

    STAGING/  layers/<diff id>/    those that the store does not have
              config/<digest>
"""

from __future__ import annotations

import gzip
import hashlib
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from boilerhouse.embedded.kubelet.images.imagearchive import (
    Archive,
    Found,
    images_in,
    open_archive,
)
from boilerhouse.embedded.kubelet.images.imageconfig import read_config
from boilerhouse.embedded.kubelet.images.layers import BadImage, Budget, unpack
from boilerhouse.embedded.kubelet.kernel import linux

_LAYERS = 127  # what a Docker engine allows, too
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"
_MEMORY = 1 << 30  # bytes of address space; 100 MiB are used for the largest of images
_NICE = 10  # an import can wait for claims


class Job(msgspec.Struct, frozen=True):
    """What is to be unpacked. `known` are the layers of the store, with their sizes."""

    archive: str
    staging: str
    parent: int
    seconds: int  # of processor time
    known: dict[str, int]
    name: str | None = None


class Unpacked(msgspec.Struct, frozen=True):
    """One image: its names, and what the index of the store will say of it."""

    names: list[str]
    config: str
    layers: dict[str, int]  # bytes by diff id, lowest layer first


class Report(msgspec.Struct, frozen=True):
    """What came of a job: images, or why there are none."""

    images: list[Unpacked] = []
    bad: str = ""


def main() -> None:
    """Do the job that stdin tells, and report."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    linux.die_with_parent(job.parent)
    os.nice(_NICE)
    for what, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CPU, job.seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    try:
        report = Report(images=unpack_images(job))
    except BadImage as error:
        report = Report(bad=str(error))
    except MemoryError:
        report = Report(bad="the archive needs more memory than an import may have")
    except Exception as error:  # noqa: BLE001  whatever it is, the archive has brought it about
        traceback.print_exc()
        report = Report(bad=f"the archive cannot be read: {error}")
    sys.stdout.buffer.write(msgspec.json.encode(report))


def unpack_images(job: Job) -> list[Unpacked]:
    """Unpack every image of an archive or layout into the staging directory."""
    staging = Path(job.staging)
    known = dict(job.known)
    with open_archive(Path(job.archive)) as archive:
        found = images_in(archive)
        if job.name is not None and len(found) > 1:
            raise BadImage(f"the archive has {len(found)} images: their names must be kept")
        made = []
        for image in found:
            names = [job.name] if job.name is not None else list(image.names)
            if not names:
                raise BadImage("the image has no name: give it one")
            made.append(_unpack(archive, image, names, staging, known))
    # One sync of the file system instead of one per file: layers have thousands.
    fd = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    try:
        linux.sync_file_system(fd)
    finally:
        os.close(fd)
    return made


def _unpack(
    archive: Archive, found: Found, names: list[str], staging: Path, known: dict[str, int]
) -> Unpacked:
    """Unpack what is missing of an image; `known` gains its layers."""
    config = read_config(found.config)
    if len(config.layers) != len(found.layers) or len(config.layers) > _LAYERS:
        raise BadImage(
            f"the image has {len(found.layers)} layers, its configuration {len(config.layers)}"
        )
    budget = Budget()
    sizes: dict[str, int] = {}
    for (member, digest), layer in zip(found.layers, config.layers, strict=True):
        # Images repeat layers (empty ones above all), overlayfs takes each once: the topmost
        # place is the one that counts.
        sizes.pop(layer, None)
        if layer not in known:
            before = budget.bytes
            _unpack_layer(archive, member, digest, staging / "layers" / layer, budget)
            known[layer] = before - budget.bytes
        sizes[layer] = known[layer]
    name = hashlib.sha256(found.config).hexdigest()
    (staging / "config" / name).write_bytes(found.config)
    return Unpacked(names, name, sizes)


def _unpack_layer(
    archive: Archive, member: str, digest: str | None, place: Path, budget: Budget
) -> None:
    place.mkdir(mode=0o755)
    try:
        with archive.open(member) as stored:
            outer = _Hashed(stored)
            inner = _Hashed(_decompressed(outer))
            unpack(cast(BinaryIO, inner), place, budget)
            inner.drain(budget)
            outer.drain(budget)
    except KeyError:
        raise BadImage(f"the archive lacks its layer {member}") from None
    except (OSError, EOFError) as error:
        raise BadImage(f"layer {member} cannot be unpacked: {error}") from error
    if inner.digest() != place.name:
        raise BadImage(f"layer {member} does not have the content its image says")
    if digest is not None and "sha256:" + outer.digest() != digest:
        raise BadImage(f"layer {member} is damaged: another digest")


class _Hashed:
    """A stream that is hashed as it is read."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._hash = hashlib.sha256()
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (more := self._source.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._source.read(size)
        self._hash.update(data)
        return data

    def drain(self, budget: Budget) -> None:
        """Read what is left after the archive's end mark: it is part of the digest."""
        while data := self.read(1024 * 1024):
            budget.bytes -= len(data)
            if budget.bytes < 0:
                raise BadImage("a layer goes on long after its end")

    def digest(self) -> str:
        return self._hash.hexdigest()


def _decompressed(source: _Hashed) -> BinaryIO:
    start = source.peek(4)
    if start == _ZSTD:
        raise BadImage("layers compressed with zstd are not supported here: use gzip")
    if start[:2] == _GZIP:
        return cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, source)))
    return cast(BinaryIO, source)


if __name__ == "__main__":
    main()
