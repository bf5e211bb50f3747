"""The local image store: images imported from files, their layers unpacked once and shared.

    DIR/images/  index.json          name ─► configuration, layers
                 layers/<diff id>/   one directory per layer, named by the digest of its content
                 config/<digest>     configurations as they came
                 .import-…/          an import that is under way

An import unpacks into a directory of its own (importing.py), moves layers and configuration from
there, synced, and writes the index last: its replacement is the commit. What nothing needs is swept
when the index has changed.
`host`, the machine's own programs, is always there and not stored.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import structlog

from boilerhouse.core.clock import Clock, parse_time, rfc3339
from boilerhouse.embedded.kubelet.images.imageconfig import ImageConfig, read_config
from boilerhouse.embedded.kubelet.images.importing import UnpackingProcess
from boilerhouse.embedded.kubelet.kernel.trees import remove_tree
from boilerhouse.platform.files import durable

HOST = "host"

log = structlog.get_logger(__name__)


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
    """Every method may be called from any thread; all but `hold` and `let_go` block.

    Those two are called on the event loop. What they lock is held for changes in memory only, never
    during I/O; another lock keeps those apart who write the index.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._held: dict[str, tuple[str, ...]] = {}
        self._pinned: dict[str, frozenset[str]] = {}  # layers that imports count on
        self._doomed: set[str] = set()  # layers that are being deleted
        for part in (self._layers, self._configs):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        leftovers = (
            (self._layers, ".new-*"),  # of earlier versions
            (self._configs, "*.tmp"),
            (directory, ".incoming-*"),
            (directory, ".import-*"),
        )
        for leftover in [path for where, what in leftovers for path in where.glob(what)]:
            try:
                _delete(leftover)
            except OSError as error:  # what an import left is no reason not to start
                log.warning("images.leftover", path=str(leftover), error=str(error))
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
        # No lock: the index is replaced, never changed.
        entry = self._index.get(name)
        if entry is None:
            return None
        config = read_config((self._configs / entry["config"]).read_bytes())
        layers = tuple(self._layers / layer for layer in entry["layers"])
        moment = parse_time(entry["importedAt"])
        size = sum(entry["layers"].values())
        return Image(name, "sha256:" + entry["config"], layers, config, size, moment)

    def import_image(
        self, path: Path, name: str | None = None, unpacking: UnpackingProcess | None = None
    ) -> list[Image]:
        """Import every image of an archive or layout under its own name, or its only one as `name`.

        Raises `BadImage`, or `Cancelled` if `unpacking` was; then nothing was imported.
        """
        staging = Path(tempfile.mkdtemp(prefix=".import-", dir=self._directory))
        try:
            for part in ("layers", "config"):
                (staging / part).mkdir(mode=0o700)
            known = self._pin(staging.name)
            process = unpacking or UnpackingProcess()
            found = process.run(path.absolute(), staging.absolute(), known, name)
            entries = {
                normal(each): {
                    "config": image.config,
                    "layers": image.layers,
                    "importedAt": rfc3339(self._clock.now()),
                }
                for image in found
                for each in image.names
            }
            with self._writing:
                self._take_over(staging)
                self._commit(lambda index: {**index, **entries})
                self._unpin(staging.name)
                self._sweep()
        finally:
            self._unpin(staging.name)
            _delete(staging)
        return [stored for each in entries if (stored := self.get(each)) is not None]

    def remove(self, reference: str) -> bool:
        """Remove a name, and what only it needed; False if there is none."""
        name = normal(reference)

        def without(index: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
            layers = tuple(index[name]["layers"])
            users = sorted(who for who, held in self._held.items() if held == layers)
            if users:
                raise ImageInUse(f"image {name} is used by {', '.join(users)}")
            return {key: entry for key, entry in index.items() if key != name}

        with self._writing:
            if name not in self._index:
                return False
            self._commit(without)
            self._sweep()
        return True

    def hold(self, image: Image, who: str) -> bool:
        """Keep an image's layers while `who` runs on them; False if they are being deleted."""
        layers = tuple(layer.name for layer in image.layers)
        with self._lock:
            if not self._doomed.isdisjoint(layers):
                return False
            self._held[who] = layers
        return True

    def let_go(self, who: str) -> None:
        with self._lock:
            self._held.pop(who, None)

    def _pin(self, who: str) -> dict[str, int]:
        """Keep what is there for an import that need not unpack it again; return the sizes."""
        with self._lock:
            known = {
                layer: size
                for entry in self._index.values()
                for layer, size in entry["layers"].items()
                if layer not in self._doomed
            }
            self._pinned[who] = frozenset(known)
        missing = [layer for layer in known if not (self._layers / layer).is_dir()]
        return {layer: size for layer, size in known.items() if layer not in missing}

    def _unpin(self, who: str) -> None:
        with self._lock:
            self._pinned.pop(who, None)

    def _take_over(self, staging: Path) -> None:
        """Move what was unpacked, and is on disk, to where images have it."""
        for config in (staging / "config").iterdir():
            durable.write_file(self._configs / config.name, config.read_bytes())
        for layer in (staging / "layers").iterdir():
            place = self._layers / layer.name
            if place.is_dir() and any(
                layer.name in entry["layers"] for entry in self._index.values()
            ):
                continue  # another import was first
            _delete(place)  # one that no image knows of
            layer.rename(place)
        durable.sync_directory(self._layers)

    def _commit(
        self, change: Callable[[dict[str, dict[str, Any]]], dict[str, dict[str, Any]]]
    ) -> None:
        """Replace the index, in memory and then on disk; as it was if that fails."""
        with self._lock:
            before = self._index
            self._index = change(before)
        try:
            content = json.dumps(self._index, indent=1).encode()
            durable.write_file(self._directory / "index.json", content)
        except BaseException:
            with self._lock:
                self._index = before
            raise

    def _sweep(self) -> None:
        """Delete what no image, no container and no import needs."""
        there = {path.name for path in self._layers.iterdir()}
        with self._lock:
            wanted = {layer for entry in self._index.values() for layer in entry["layers"]}
            wanted.update(*self._held.values(), *self._pinned.values())
            self._doomed = there - wanted
            doomed = list(self._doomed)
        configs = {entry["config"] for entry in self._index.values()}
        try:
            for layer in doomed:
                _delete(self._layers / layer)
            for path in self._configs.iterdir():
                if path.name not in configs:
                    _delete(path)
        finally:
            with self._lock:
                self._doomed = set()


def normal(reference: str) -> str:
    """Return a reference with its tag: `nginx` is `nginx:latest`. Digests stay as they are."""
    if "@" in reference or reference == HOST:
        return reference
    _, _, last = reference.rpartition("/")
    return reference if ":" in last else f"{reference}:latest"


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)  # a layer may hold directories that even their owner may not write to
    else:
        path.unlink(missing_ok=True)
