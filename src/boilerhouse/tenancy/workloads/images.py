"""Images: whether one can be had, and the store of one machine. Two ports.

workload ─► Images.missing(reference) ─► "" or why not
REST API ─► ImageShelf: what is stored, what comes in, what goes

On one machine the local store is asked. On a cluster each node pulls for itself and only it knows,
so there the reference is trusted, failures show on the Pods, and there is no shelf.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

HOST = "host"  # the reference of the machine's own programs


class Images(Protocol):
    async def missing(self, reference: str) -> str:
        """Return why the image cannot be had, as a sentence; empty if it can."""
        ...


class TrustedImages:
    """Of a cluster: every reference counts as good, except the one that only one machine has."""

    async def missing(self, reference: str) -> str:
        if reference == HOST:
            return "image host is the machine's own system, which a cluster does not have"
        return ""


class ImageRefused(Exception):
    """An image that cannot be taken in; the message says why."""


class ImageInUse(Exception):
    """An image that cannot be removed; the message names who uses it."""


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One name in the store. Images share layers: sizes do not add up."""

    name: str
    digest: str
    size: int  # bytes, unpacked
    imported_at: datetime


class ImageShelf(Protocol):
    """The image store of one machine."""

    async def stored(self) -> list[StoredImage]:
        """Return what is there, by name."""
        ...

    async def take_in(self, archive: AsyncIterator[bytes], name: str | None) -> list[StoredImage]:
        """Import an archive (`docker save`, or an OCI layout as a tar): all of it or nothing.

        `name` is for an archive of one image; others keep the names they come with. Raises
        `ImageRefused`.
        """
        ...

    async def remove(self, name: str) -> bool:
        """Remove a name; False if there is none. Raises `ImageInUse`."""
        ...
