"""The images of this machine: the local store, and the machine itself as image `host`.

workload ─► LocalImages.missing ──────────┐
REST API ─► stored, take_in, remove ──────┴─► ImageStore
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from boilerhouse.embedded.kubelet.images import images
from boilerhouse.embedded.kubelet.images.images import HOST, Image, ImageStore, normal
from boilerhouse.embedded.kubelet.images.importing import Cancelled, UnpackingProcess
from boilerhouse.embedded.kubelet.images.layers import BadImage
from boilerhouse.tenancy.workloads.images import ImageInUse, ImageRefused, StoredImage

ARCHIVE_BYTES = 32 << 30  # of an archive on its way in; what it unpacks to is bounded by the store
AT_A_TIME = 2  # archives that are unpacked; further ones wait, whole, for their turn


class LocalImages:
    """`Images` and `ImageShelf` of one machine, which pulls nothing."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store
        self._unpacking = asyncio.Semaphore(AT_A_TIME)

    async def missing(self, reference: str) -> str:
        if reference == HOST or await asyncio.to_thread(self._store.get, reference) is not None:
            return ""
        there = ", ".join([HOST, *await asyncio.to_thread(self._store.names)])
        return f"image {reference} is not in the local store, which has: {there}"

    async def stored(self) -> list[StoredImage]:
        """Return what is there, by name."""
        return await asyncio.to_thread(self._stored)

    def _stored(self) -> list[StoredImage]:
        found = [self._store.get(name) for name in self._store.names()]
        return [_view(image) for image in found if image is not None]

    async def take_in(self, archive: AsyncIterator[bytes], name: str | None) -> list[StoredImage]:
        """Import an archive as it comes: first to a file that nobody else sees, then unpacked."""
        if name is not None and normal(name) == HOST:
            raise ImageRefused("the name host means this machine's own programs")
        try:
            file = await asyncio.to_thread(self._store.inbox)
            try:
                await _received(archive, file)
                async with self._unpacking:
                    return await self._imported(Path(file.name), name)
            finally:
                await asyncio.to_thread(file.close)  # it goes with that: gigabytes take their time
        except OSError as error:
            raise ImageRefused(f"the image cannot be stored: {error.strerror}") from error

    async def _imported(self, path: Path, name: str | None) -> list[StoredImage]:
        unpacking = UnpackingProcess()
        importing = asyncio.create_task(
            asyncio.to_thread(self._store.import_image, path, name, unpacking)
        )
        try:
            return [_view(image) for image in await asyncio.shield(importing)]
        except BadImage as error:
            raise ImageRefused(str(error)) from error
        except asyncio.CancelledError:
            unpacking.cancel()
            with contextlib.suppress(Cancelled, BadImage, OSError):
                await importing  # it clears away what it has unpacked
            raise

    async def remove(self, name: str) -> bool:
        """Remove a name; False if there is none."""
        try:
            return await asyncio.to_thread(self._store.remove, name)
        except images.ImageInUse as error:
            raise ImageInUse(str(error)) from error


async def _received(archive: AsyncIterator[bytes], file: IO[bytes]) -> None:
    size = 0
    async for piece in archive:
        size += len(piece)
        if size > ARCHIVE_BYTES:
            raise ImageRefused(f"the archive is larger than {ARCHIVE_BYTES >> 30} GiB")
        await asyncio.to_thread(file.write, piece)
    await asyncio.to_thread(file.flush)


def _view(image: Image) -> StoredImage:
    return StoredImage(image.name, image.digest, image.size, image.imported_at)
