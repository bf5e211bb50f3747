"""The local image store: images imported from files, their layers unpacked once and shared.

    DIR/images/  index.json          name ─► configuration, layers
                 layers/<diff id>/   one directory per layer, named by the digest of its content
                 config/<digest>     configurations as they came

An import writes layers and configuration first, each under a temporary name and synced, and the
index last: its replacement is the commit. What no image needs is swept when the index has changed.
`host`, the machine's own programs, is always there and not stored.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from boilerhouse.core.clock import Clock, parse_time, rfc3339
from boilerhouse.embedded.kubelet import linux
from boilerhouse.embedded.kubelet.imagearchive import Archive, Found, images_in, open_archive
from boilerhouse.embedded.kubelet.imageconfig import ImageConfig, read_config
from boilerhouse.embedded.kubelet.layers import BadImage, Budget, unpack
from boilerhouse.embedded.kubelet.trees import remove_tree
from boilerhouse.embedded.storage import durable

HOST = "host"
_LAYERS = 127  # what a Docker engine allows, too
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"


class ImageInUse(Exception):
    """The image cannot be removed; the message names who uses it."""


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    digest: str
    layers: tuple[Path, ...]
    config: ImageConfig
    size: int
    imported_at: datetime


class ImageStore:
    """Every method blocks and may be called from any thread."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.RLock()
        self._held: dict[str, tuple[str, ...]] = {}
        for part in (self._layers, self._configs):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        leftovers = ((self._layers, ".new-*"), (self._configs, "*.tmp"), (directory, ".incoming-*"))
        for leftover in [path for where, what in leftovers for path in where.glob(what)]:
            _delete(leftover)
        self._index: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(FileNotFoundError):
            self._index = json.loads((directory / "index.json").read_text())

    @property
    def _layers(self) -> Path:
        return self._directory / "layers"

    @property
    def _configs(self) -> Path:
        return self._directory / "config"

    def names(self) -> list[str]:
        return sorted(self._index)

    def inbox(self) -> IO[bytes]:
        """Open a file for an archive that is on its way in; it goes when it is closed."""
        return tempfile.NamedTemporaryFile(prefix=".incoming-", dir=self._directory)

    def get(self, reference: str) -> Image | None:
        """Return an image by its name; without a tag `latest` is meant."""
        name = normal(reference)
        # No lock: the index is replaced, never changed, and an import may hold the lock for long.
        entry = self._index.get(name)
        if entry is None:
            return None
        config = read_config((self._configs / entry["config"]).read_bytes())
        layers = tuple(self._layers / layer for layer in entry["layers"])
        moment = parse_time(entry["importedAt"])
        size = sum(entry["layers"].values())
        return Image(name, "sha256:" + entry["config"], layers, config, size, moment)

    def import_image(self, path: Path, name: str | None = None) -> list[Image]:
        """Import every image of an archive or layout under its own name, or its only one as `name`.

        Raises `BadImage`; then nothing was imported.
        """
        with self._lock, open_archive(path) as archive:
            found = images_in(archive)
            if name is not None and len(found) > 1:
                raise BadImage(f"the archive has {len(found)} images: their names must be kept")
            entries: dict[str, dict[str, Any]] = {}
            for image in found:
                names = [name] if name is not None else list(image.names)
                if not names:
                    raise BadImage("the image has no name: give it one")
                entry = self._unpack(archive, image)
                entries.update({normal(each): entry for each in names})
            self._commit({**self._index, **entries})
        return [stored for each in entries if (stored := self.get(each)) is not None]

    def remove(self, reference: str) -> bool:
        """Remove a name, and what only it needed; False if there is none."""
        name = normal(reference)
        with self._lock:
            if name not in self._index:
                return False
            users = [who for who, layers in self._held.items() if self._uses(name, layers)]
            if users:
                raise ImageInUse(f"image {name} is used by {', '.join(sorted(users))}")
            self._commit({key: entry for key, entry in self._index.items() if key != name})
        return True

    def hold(self, image: Image, who: str) -> None:
        """Keep an image's layers while `who` runs on them."""
        with self._lock:
            self._held[who] = tuple(layer.name for layer in image.layers)

    def let_go(self, who: str) -> None:
        with self._lock:
            self._held.pop(who, None)

    def _uses(self, name: str, layers: tuple[str, ...]) -> bool:
        return tuple(self._index[name]["layers"]) == layers

    def _commit(self, index: dict[str, dict[str, Any]]) -> None:
        durable.write_file(self._directory / "index.json", json.dumps(index, indent=1).encode())
        self._index = index
        wanted = {layer for entry in index.values() for layer in entry["layers"]}
        wanted |= {layer for layers in self._held.values() for layer in layers}
        configs = {entry["config"] for entry in index.values()}
        for directory, keep in ((self._layers, wanted), (self._configs, configs)):
            for path in directory.iterdir():
                if path.name not in keep and not path.name.startswith(".new-"):
                    _delete(path)

    def _unpack(self, archive: Archive, found: Found) -> dict[str, Any]:
        """Unpack what is missing of an image and return its entry for the index."""
        config = read_config(found.config)
        if len(config.layers) != len(found.layers) or len(config.layers) > _LAYERS:
            raise BadImage(
                f"the image has {len(found.layers)} layers, its configuration {len(config.layers)}"
            )
        known = {
            key: size for entry in self._index.values() for key, size in entry["layers"].items()
        }
        budget = Budget()
        sizes: dict[str, int] = {}
        for (member, digest), layer in zip(found.layers, config.layers, strict=True):
            # Images repeat layers (empty ones above all), overlayfs takes each once: the topmost
            # place is the one that counts.
            sizes.pop(layer, None)
            if layer in known and (self._layers / layer).is_dir():
                sizes[layer] = known[layer]
                continue
            before = budget.bytes
            self._unpack_layer(archive, member, digest, layer, budget)
            sizes[layer] = known[layer] = before - budget.bytes
        name = hashlib.sha256(found.config).hexdigest()
        durable.write_file(self._configs / name, found.config)
        return {"config": name, "layers": sizes, "importedAt": rfc3339(self._clock.now())}

    def _unpack_layer(
        self, archive: Archive, member: str, digest: str | None, layer: str, budget: Budget
    ) -> None:
        fresh = self._layers / f".new-{layer}"
        _delete(fresh)
        fresh.mkdir(mode=0o755)
        try:
            with archive.open(member) as stored:
                outer = _Hashed(stored)
                inner = _Hashed(_decompressed(outer))
                unpack(cast(BinaryIO, inner), fresh, budget)
                inner.drain(budget)
                outer.drain(budget)
            if inner.digest() != layer:
                raise BadImage(f"layer {member} does not have the content its image says")
            if digest is not None and "sha256:" + outer.digest() != digest:
                raise BadImage(f"layer {member} is damaged: another digest")
            self._settle(fresh, self._layers / layer)
        except KeyError:
            raise BadImage(f"the archive lacks its layer {member}") from None
        except (OSError, EOFError) as error:
            raise BadImage(f"layer {member} cannot be unpacked: {error}") from error
        finally:
            _delete(fresh)

    def _settle(self, fresh: Path, place: Path) -> None:
        # One sync of the file system instead of one per file: layers have thousands.
        fd = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
        try:
            linux.sync_file_system(fd)
        finally:
            os.close(fd)
        _delete(place)  # one that no image knew of
        fresh.rename(place)
        durable.sync_directory(self._layers)


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


def normal(reference: str) -> str:
    """Return a reference with its tag: `nginx` is `nginx:latest`. Digests stay as they are."""
    if "@" in reference or reference == HOST:
        return reference
    _, _, last = reference.rpartition("/")
    return reference if ":" in last else f"{reference}:latest"


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)  # a layer may be as deep as its author likes, and its modes closed
    else:
        path.unlink(missing_ok=True)
