"""Images as they come: what `docker save` writes, and OCI image layouts, as tar archives.

    file ─► open_archive ─► Found: names, configuration, layers as streams

Nothing is unpacked here. What an archive says about itself is checked where it is cheap: digests of
manifests and configurations here, those of layers while they are read (images.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from boilerhouse.embedded.kubelet.images.layers import BadImage, Header, members
from boilerhouse.embedded.kubelet.kernel import linux

_DOCUMENT_BYTES = 8 * 1024 * 1024
_MEMBERS = 100_000
_ARCHIVE_BYTES = 64 << 30  # once it is decompressed
_INDEX_DEPTH = 4
_NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


@dataclass(frozen=True, slots=True)
class Found:
    """An image in an archive. `layers` are member names, lowest first, each with its digest if
    the archive tells it (of the bytes as they are stored)."""

    names: tuple[str, ...]
    config: bytes
    layers: tuple[tuple[str, str | None], ...]


class Archive:
    """A tar file, read once to its end: where its files are, and what its links lead to."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._files: dict[str, tarfile.TarInfo] = {}
        self._links: dict[str, str] = {}
        for number, member in enumerate(members(archive)):
            name = member.name.removeprefix("./")
            if number >= _MEMBERS:
                raise BadImage(f"the archive has more than {_MEMBERS} members")
            if member.offset_data + member.size > _ARCHIVE_BYTES:
                raise BadImage(f"the archive is larger than {_ARCHIVE_BYTES >> 30} GiB")
            if member.isreg():
                self._files[name] = member
            elif member.issym():  # an older `docker save` writes a layer that it repeats as a link
                self._links[name] = posixpath.normpath(
                    posixpath.join(posixpath.dirname(name), member.linkname)
                )
            elif member.islnk():
                self._links[name] = member.linkname

    def open(self, name: str) -> BinaryIO:
        name = name.removeprefix("./")
        member = self._files.get(name) or self._files[self._links[name]]
        content = self._archive.extractfile(member)
        assert content is not None, "it is a file"
        return cast(BinaryIO, content)


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a tar file, compressed or not."""
    try:
        with tarfile.open(path, tarinfo=Header) as archive:
            yield Archive(archive)
    except tarfile.ReadError as error:
        # Its words are those of every decompressor that was tried.
        raise BadImage(
            "this is not a tar archive, plain or compressed, or it is cut short: save one"
            " with `docker save`"
        ) from error
    except (tarfile.TarError, EOFError) as error:
        raise BadImage(f"this is not a readable tar archive: {error}") from error


def images_in(archive: Archive) -> list[Found]:
    """Return the images of an archive; those for other machines are left out."""
    for name, read in (("manifest.json", _docker), ("index.json", _layout)):
        try:
            document = _document(archive, name)
        except KeyError:
            continue
        try:
            found = read(archive, document)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise BadImage(f"{name} of the image is malformed: {error!r}") from error
        if not found:
            raise BadImage(f"the archive has no image for linux/{linux.architecture()}")
        return found
    raise BadImage("neither a docker archive (manifest.json) nor an OCI layout (index.json)")


def _docker(archive: Archive, document: Any) -> list[Found]:
    return [
        Found(
            tuple(image.get("RepoTags") or ()),
            _read(archive, image["Config"]),
            tuple((str(layer), None) for layer in image["Layers"]),
        )
        for image in document
    ]


def _layout(archive: Archive, document: Any, depth: int = 0) -> list[Found]:
    if depth > _INDEX_DEPTH:
        raise BadImage("the image's indexes are nested too deeply")
    found = []
    for entry in document["manifests"]:
        platform = entry.get("platform") or {}
        if platform.get("architecture", linux.architecture()) != linux.architecture():
            continue
        if platform.get("os", "linux") != "linux":
            continue
        inner = json.loads(_blob(archive, entry["digest"]))
        names = tuple(
            entry["annotations"][key]
            for key in _NAME_ANNOTATIONS
            if key in (entry.get("annotations") or {})
        )[:1]
        if "manifests" in inner:
            found += [
                Found(names or image.names, image.config, image.layers)
                for image in _layout(archive, inner, depth + 1)
            ]
            continue
        layers = tuple((_path(layer["digest"]), str(layer["digest"])) for layer in inner["layers"])
        found.append(Found(names, _blob(archive, inner["config"]["digest"]), layers))
    return found


def _blob(archive: Archive, digest: str) -> bytes:
    content = _read(archive, _path(digest))
    if "sha256:" + hashlib.sha256(content).hexdigest() != digest:
        raise BadImage(f"the blob {digest} has another digest")
    return content


def _path(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or len(value) != 64 or not value.isalnum():
        raise BadImage(f"the digest {digest!r} is not a sha256")
    return f"blobs/sha256/{value}"


def _document(archive: Archive, name: str) -> Any:
    try:
        return json.loads(_read(archive, name))
    except ValueError as error:
        raise BadImage(f"{name} of the image is not JSON: {error}") from error


def _read(archive: Archive, name: str) -> bytes:
    with archive.open(name) as file:
        content = file.read(_DOCUMENT_BYTES + 1)
    if len(content) > _DOCUMENT_BYTES:
        raise BadImage(f"{name} of the image is too large")
    return content
